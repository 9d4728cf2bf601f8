#include "engines/mma/correlation/run.cuh"

namespace convt3d::mma {

template void forward<__nv_bfloat16>(const Problem&, const CorrelationPlan&, ConstTensor, ConstTensor, const Epilogue&,
                                     MutableTensor, void*, Stream);
template void input_grad<__nv_bfloat16>(const Problem&, const CorrelationPlan&, ConstTensor, ConstTensor, ConstTensor,
                                        MutableTensor, void*, Stream);

}  // namespace convt3d::mma
