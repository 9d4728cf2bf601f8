#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "device/run_channels_copy.cuh"

namespace convt3d {

#define CONVT3D_COPY(T) \
  template void copy_channels_last<T>(const OperandCopy&, const CopiedRange&, ConstTensor, ConstTensor, void*, Stream);

CONVT3D_COPY(float)
CONVT3D_COPY(__half)
CONVT3D_COPY(__nv_bfloat16)

}  // namespace convt3d
