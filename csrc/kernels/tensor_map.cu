#include "kernels/tensor_map.h"

#include <cuda_runtime.h>

#include <cstdint>

namespace convt3d {
namespace {

// The driver's library is not linked: the wheel loads on machines without one.
auto encode_function() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  const bool usable = error == cudaSuccess && found == cudaDriverEntryPointSuccess;
  return usable ? reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function) : nullptr;
}

}  // namespace

bool encode(const TensorBox& box, CUtensorMap& map) {
  static const auto function = encode_function();
  if (function == nullptr) return false;
  if (reinterpret_cast<uintptr_t>(box.data) % 16 != 0) return false;
  for (const cuuint64_t stride : box.stride) {
    if (stride == 0 || stride % 16 != 0) return false;
  }
  for (const cuuint32_t extent : box.extent) {
    if (extent > 256) return false;
  }
  return function(&map, box.type, 5, const_cast<void*>(box.data), box.size, box.stride, box.extent, box.every,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, box.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace convt3d
