#include "engines/depthwise/run_tiles.cuh"

namespace convt3d::depthwise {

template void tile_forward<float>(const Problem&, const DepthwiseTilePlan&, ConstTensor, ConstTensor, const Epilogue&,
                                  MutableTensor, Stream);
template void tile_input_grad<float>(const Problem&, const DepthwiseTilePlan&, ConstTensor, ConstTensor, ConstTensor,
                                     MutableTensor, Stream);

}  // namespace convt3d::depthwise
