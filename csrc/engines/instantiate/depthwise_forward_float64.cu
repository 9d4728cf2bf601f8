#include "engines/depthwise/run.cuh"

namespace convt3d::depthwise {

template void forward<double>(const Problem&, const DepthwiseForwardPlan&, ConstTensor, ConstTensor, const Epilogue&,
                              MutableTensor, Stream);

}  // namespace convt3d::depthwise
