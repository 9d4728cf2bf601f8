#include "engines/wgmma/weight_grad/run.cuh"

namespace convt3d::wgmma {

template void weight_grad<float>(const Problem&, const WgmmaWeightGradPlan&, ConstTensor, ConstTensor,
                                 const SummedGrads&, void*, Stream, const GradRound&);

}  // namespace convt3d::wgmma
