#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "device/run_channels_copy.cuh"

namespace convt3d {

template void copy_channels_last<float>(const OperandCopy&, const CopiedRange&, ConstTensor, ConstTensor, void*,
                                        Stream);
template void copy_channels_last<__half>(const OperandCopy&, const CopiedRange&, ConstTensor, ConstTensor, void*,
                                         Stream);
template void copy_channels_last<__nv_bfloat16>(const OperandCopy&, const CopiedRange&, ConstTensor, ConstTensor, void*,
                                                Stream);

}  // namespace convt3d
