#include "engines/mma/backward/run.cuh"

namespace convt3d::mma {

template void backward<__nv_bfloat16>(const Problem&, const BackwardPlan&, ConstTensor, ConstTensor, ConstTensor,
                                      ConstTensor, MutableTensor, const SummedGrads&, void*, Stream);

}  // namespace convt3d::mma
