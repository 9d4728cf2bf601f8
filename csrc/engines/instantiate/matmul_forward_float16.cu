#include "engines/matmul/run.cuh"

namespace convt3d::matmul {

template void forward<__half>(const MatmulPlan&, ConstTensor, ConstTensor, const Epilogue&, MutableTensor, Stream);

}  // namespace convt3d::matmul
