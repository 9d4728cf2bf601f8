#include "engines/mma/weight_grad/run.cuh"

namespace convt3d::mma {

template void weight_grad<__nv_bfloat16>(const Problem&, const WeightGradPlan&, ConstTensor, ConstTensor, ConstTensor,
                                         const SummedGrads&, void*, Stream, const GradRound&);

}  // namespace convt3d::mma
