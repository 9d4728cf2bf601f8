#include "engines/depthwise/run_patches.cuh"

namespace convt3d::depthwise {

template void patch_backward<__half>(const Problem&, const DepthwisePatchPlan&, ConstTensor, ConstTensor, ConstTensor,
                                     MutableTensor, const SummedGrads&, void*, Stream);

}  // namespace convt3d::depthwise
