#include "engines/simt/run_correlation.cuh"

namespace convt3d::simt {

template void forward<__half>(const Problem&, const CorrelationPlan&, ConstTensor, ConstTensor, const Epilogue&,
                              MutableTensor, void*, Stream);
template void input_grad<__half>(const Problem&, const CorrelationPlan&, ConstTensor, ConstTensor, ConstTensor,
                                 MutableTensor, void*, Stream);

}  // namespace convt3d::simt
