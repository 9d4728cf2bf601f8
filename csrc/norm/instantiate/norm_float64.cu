// Group norms of float64.
#include "norm/run.cuh"

namespace convt3d::norm {

template void forward<double, double>(const Size&, const Shape&, const Plan&, const Vectors&, ConstTensor,
                                      const EpilogueMoments&, const Arguments&, MutableTensor, const Statistics&, void*,
                                      Stream);
template void backward<double, double>(const Size&, const Shape&, const Plan&, const Vectors&, ConstTensor, ConstTensor,
                                       const Statistics&, const Arguments&, bool, MutableTensor, void*, void*, void*,
                                       Stream);

}  // namespace convt3d::norm
