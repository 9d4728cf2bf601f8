#include "engines/matmul/run.cuh"

namespace convt3d::matmul {

template void forward<__nv_bfloat16>(const MatmulPlan&, ConstTensor, ConstTensor, const Epilogue&, MutableTensor,
                                     Stream);

}  // namespace convt3d::matmul
