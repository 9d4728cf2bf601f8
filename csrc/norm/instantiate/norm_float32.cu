// Group norms of float32.
#include "norm/run.cuh"

namespace convt3d::norm {

template void forward<float, float>(const Size&, const Shape&, const Plan&, const Vectors&, ConstTensor,
                                    const EpilogueMoments&, const Arguments&, MutableTensor, const Statistics&, void*,
                                    Stream);
template void backward<float, float>(const Size&, const Shape&, const Plan&, const Vectors&, ConstTensor, ConstTensor,
                                     const Statistics&, const Arguments&, bool, MutableTensor, void*, void*, void*,
                                     Stream);
template void channel_norms<float>(const Size&, const Shape&, const Plan&, const Vectors&, ConstTensor,
                                   const EpilogueMoments&, const Arguments&, const Statistics&, ChannelNorm*, void*,
                                   Stream);

}  // namespace convt3d::norm
