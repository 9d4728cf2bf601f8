#include "engines/simt/run_bias_grad.cuh"

namespace convt3d::simt {

template void bias_grad<__nv_bfloat16>(const Problem&, const BiasGradPlan&, ConstTensor, ConstTensor, void*, void*,
                                       Stream);

}  // namespace convt3d::simt
