#include "engines/depthwise/run_tiles.cuh"

namespace convt3d::depthwise {

template void tile_weight_grad<__nv_bfloat16>(const Problem&, const DepthwiseTilePlan&, ConstTensor, ConstTensor,
                                              ConstTensor, const SummedGrads&, void*, Stream);

}  // namespace convt3d::depthwise
