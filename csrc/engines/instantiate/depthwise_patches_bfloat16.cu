#include "engines/depthwise/run_patches.cuh"

namespace convt3d::depthwise {

template void patch_input_grad<__nv_bfloat16>(const DepthwisePatchPlan&, ConstTensor, ConstTensor, MutableTensor,
                                              Stream);
template void patch_weight_grad<__nv_bfloat16>(const Problem&, const DepthwisePatchPlan&, ConstTensor, ConstTensor,
                                               const SummedGrads&, void*, Stream);

}  // namespace convt3d::depthwise
