// Descriptions of tensors for the copy engine ("tensor maps"), made by the driver.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace convt3d {

// A box of `extent` elements that moves through a tensor of 5 axes, the first contiguous.
struct TensorBox {
  const void* data;
  CUtensorMapDataType type;
  CUtensorMapSwizzle swizzle;
  cuuint64_t size[5];
  cuuint64_t stride[4];  // of the axes after the first, in bytes
  cuuint32_t extent[5];
  cuuint32_t every[5];  // of the extent's elements is in the box

  // `step`: bytes from an element to the next along the axis. The box has `count` elements, every `fold`-th.
  void set(int axis, int64_t elements, int64_t step, int32_t count, int32_t fold = 1) {
    size[axis] = static_cast<cuuint64_t>(elements);
    extent[axis] = static_cast<cuuint32_t>(count * fold);
    every[axis] = static_cast<cuuint32_t>(fold);
    if (axis > 0) stride[axis - 1] = static_cast<cuuint64_t>(step);
  }
};

// Of rows of 32, 64 or 128 bytes.
inline CUtensorMapSwizzle box_swizzle(int32_t row_bytes) {
  return row_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                           : CU_TENSOR_MAP_SWIZZLE_32B;
}

// False where the driver cannot: strides that are zero or no multiples of 16 bytes, boxes that are too large.
bool encode(const TensorBox& box, CUtensorMap& map);

}  // namespace convt3d
