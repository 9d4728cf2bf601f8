// Group norms of float32.
#include "norm/run.cuh"

namespace convt3d::norm {

template void forward<float, float>(const Size&, const Shape&, const Plan&, ConstTensor, const Arguments&,
                                    MutableTensor, const Statistics&, void*, Stream);
template void backward<float, float>(const Size&, const Shape&, const Plan&, ConstTensor, ConstTensor,
                                     const Statistics&, const Arguments&, bool, MutableTensor, void*, void*, void*,
                                     Stream);

}  // namespace convt3d::norm
