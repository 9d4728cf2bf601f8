#include "engines/simt/run_bias_grad.cuh"

namespace convt3d::simt {

template void bias_grad<double>(const std::array<int64_t, 5>&, const BiasGradPlan&, ConstTensor, ConstTensor, void*,
                                void*, Stream);

}  // namespace convt3d::simt
