// Group norms of float16 with results in it and in float32.
#include "norm/run.cuh"

namespace convt3d::norm {

template void forward<__half, __half>(const Size&, const Shape&, const Plan&, const Vectors&, ConstTensor,
                                      const EpilogueMoments&, const Arguments&, MutableTensor, const Statistics&, void*,
                                      Stream);
template void backward<__half, __half>(const Size&, const Shape&, const Plan&, const Vectors&, ConstTensor, ConstTensor,
                                       const Statistics&, const Arguments&, bool, MutableTensor, void*, void*, void*,
                                       Stream);
template void forward<__half, float>(const Size&, const Shape&, const Plan&, const Vectors&, ConstTensor,
                                     const EpilogueMoments&, const Arguments&, MutableTensor, const Statistics&, void*,
                                     Stream);
template void backward<__half, float>(const Size&, const Shape&, const Plan&, const Vectors&, ConstTensor, ConstTensor,
                                      const Statistics&, const Arguments&, bool, MutableTensor, void*, void*, void*,
                                      Stream);
template void channel_norms<__half>(const Size&, const Shape&, const Plan&, const Vectors&, ConstTensor,
                                    const EpilogueMoments&, const Arguments&, const Statistics&, ChannelNorm*, void*,
                                    Stream);

}  // namespace convt3d::norm
