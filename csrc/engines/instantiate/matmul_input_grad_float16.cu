#include "engines/matmul/run.cuh"

namespace convt3d::matmul {

template void input_grad<__half>(const MatmulPlan&, ConstTensor, ConstTensor, MutableTensor, void*, Stream);

}  // namespace convt3d::matmul
