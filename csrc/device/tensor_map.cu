#include "device/tensor_map.h"

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

CUtensorMapDataType data_type(BoxType type) {
  switch (type) {
    case BoxType::kFloat32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case BoxType::kTf32:
      return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
    case BoxType::kFloat16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case BoxType::kBFloat16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  }
  return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

// The swizzle of boxes whose rows have so many bytes.
CUtensorMapSwizzle swizzle(int32_t row_bytes) {
  return row_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
         : row_bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                           : CU_TENSOR_MAP_SWIZZLE_NONE;
}

// A thread that has launched nothing yet has no context, and the driver refuses it everything: autograd's, say, whose
// first work is a gradient of ours. Setting a device binds its context to the thread, as cudaSetDevice documents.
bool make_context_current() {
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess && cudaSetDevice(device) == cudaSuccess;
}

}  // namespace

bool encode(const TensorBox& box, CUtensorMap& map) {
  static const auto function = encode_function();
  if (function == nullptr) return false;
  if (!describable(box)) return false;
  const auto describe = [&] {
    return function(&map, data_type(box.type), 5, const_cast<void*>(box.data), box.size, box.stride, box.extent,
                    box.every, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle(box.swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
  };
  return describe() || (make_context_current() && describe());
}

}  // namespace convt3d
