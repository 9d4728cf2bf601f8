#include "engines/mma/run_backward.cuh"

namespace convt3d::mma {

template void backward<__half>(const Problem&, const BackwardPlan&, ConstTensor, ConstTensor, ConstTensor, ConstTensor,
                               MutableTensor, MutableTensor, void*, void*, Stream);

}  // namespace convt3d::mma
