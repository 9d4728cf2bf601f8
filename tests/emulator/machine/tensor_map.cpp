#include "machine/tensor_map.h"

#include <cstring>

#include "machine/block.h"

namespace emulator {
namespace {

constexpr uint64_t kMark = 0x436F6E5654334430;  // of what the driver has encoded

struct Encoded {
  uint64_t mark;
  unsigned char* data;
  uint32_t last[5];  // size - 1
  uint16_t extent[5];
  uint8_t every[5];
  uint8_t element_bytes;
  uint8_t swizzle_bytes;
  bool rounds_to_tf32;
  uint64_t stride[4];
};
static_assert(sizeof(Encoded) <= sizeof(CUtensorMap));

int bytes_of(CUtensorMapDataType type) {
  return type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ? 2 : 4;
}

int bytes_of(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE:
      return 0;
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B:
      return 128;
  }
  return 0;
}

}  // namespace

TensorMap tensor_map(const void* map) {
  Encoded encoded;
  std::memcpy(&encoded, map, sizeof(encoded));
  if (encoded.mark != kMark) fail("a box of a tensor map that the driver has not encoded");
  TensorMap result{};
  result.data = encoded.data;
  for (std::size_t i = 0; i < 5; ++i) {
    result.size[i] = int64_t{encoded.last[i]} + 1;
    result.stride[i] = i == 0 ? encoded.element_bytes : static_cast<int64_t>(encoded.stride[i - 1]);
    result.extent[i] = encoded.extent[i];
    result.every[i] = encoded.every[i];
  }
  result.element_bytes = encoded.element_bytes;
  result.swizzle_bytes = encoded.swizzle_bytes;
  result.rounds_to_tf32 = encoded.rounds_to_tf32;
  return result;
}

}  // namespace emulator

// The limits are those that the driver's documentation names.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data,
                                const cuuint64_t* size, const cuuint64_t* stride, const cuuint32_t* extent,
                                const cuuint32_t* every, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  using namespace emulator;
  Encoded encoded{};
  const int element_bytes = bytes_of(type);
  const int swizzle_bytes = bytes_of(swizzle);
  if (rank != 5 || reinterpret_cast<uintptr_t>(data) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < 5; ++i) {
    if (size[i] == 0 || size[i] > uint64_t{1} << 32) return CUDA_ERROR_INVALID_VALUE;
    if (extent[i] == 0 || extent[i] > 256 || every[i] == 0 || every[i] > 8) return CUDA_ERROR_INVALID_VALUE;
    encoded.last[i] = static_cast<uint32_t>(size[i] - 1);
    encoded.extent[i] = static_cast<uint16_t>(extent[i]);
    encoded.every[i] = static_cast<uint8_t>(every[i]);
  }
  for (int i = 0; i < 4; ++i) {
    if (stride[i] % 16 != 0 || stride[i] >= uint64_t{1} << 40) return CUDA_ERROR_INVALID_VALUE;
    encoded.stride[i] = stride[i];
  }
  const int row_bytes = static_cast<int>(extent[0]) * element_bytes;
  if (row_bytes % 16 != 0 || (swizzle_bytes > 0 && row_bytes > swizzle_bytes)) return CUDA_ERROR_INVALID_VALUE;
  encoded.mark = kMark;
  encoded.data = static_cast<unsigned char*>(data);
  encoded.element_bytes = static_cast<uint8_t>(element_bytes);
  encoded.swizzle_bytes = static_cast<uint8_t>(swizzle_bytes);
  encoded.rounds_to_tf32 = type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  std::memset(map, 0, sizeof(*map));
  std::memcpy(map, &encoded, sizeof(encoded));
  return CUDA_SUCCESS;
}
