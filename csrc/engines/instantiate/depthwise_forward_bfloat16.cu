#include "engines/depthwise/run.cuh"

namespace convt3d::depthwise {

template void forward<__nv_bfloat16>(const Problem&, const DepthwiseForwardPlan&, ConstTensor, ConstTensor,
                                     const Epilogue&, MutableTensor, Stream);

}  // namespace convt3d::depthwise
