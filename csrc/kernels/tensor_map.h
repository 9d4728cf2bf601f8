// Descriptions of tensors for the copy engine ("tensor maps"), made by the driver.
#pragma once

#include <cuda.h>

namespace convt3d {

// A box of `extent` elements that moves through a tensor of 5 axes, the first contiguous.
struct TensorBox {
  const void* data;
  CUtensorMapDataType type;
  CUtensorMapSwizzle swizzle;
  cuuint64_t size[5];
  cuuint64_t stride[4];  // of the axes after the first, in bytes
  cuuint32_t extent[5];
};

// False where the driver cannot: strides that are zero or no multiples of 16 bytes, boxes that are too large.
bool encode(const TensorBox& box, CUtensorMap& map);

}  // namespace convt3d
