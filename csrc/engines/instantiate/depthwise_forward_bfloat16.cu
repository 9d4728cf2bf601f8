#include "engines/depthwise/run.cuh"

namespace convt3d::depthwise {

template void forward<__nv_bfloat16>(const Problem&, const DepthwisePlan&, ConstTensor, ConstTensor, const Epilogue&,
                                     MutableTensor, Stream);

}  // namespace convt3d::depthwise
