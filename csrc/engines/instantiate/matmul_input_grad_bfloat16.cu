#include "engines/matmul/run.cuh"

namespace convt3d::matmul {

template void input_grad<__nv_bfloat16>(const MatmulPlan&, ConstTensor, ConstTensor, MutableTensor, void*, Stream);

}  // namespace convt3d::matmul
