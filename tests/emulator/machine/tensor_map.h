// What the driver makes of the description of a tensor for the copy engine.
#pragma once

#include <array>
#include <cstdint>

#include "cuda.h"

namespace emulator {

struct TensorMap {
  unsigned char* data;
  std::array<int64_t, 5> size;
  std::array<int64_t, 5> stride;  // in bytes
  std::array<uint16_t, 5> extent;
  std::array<uint8_t, 5> every;
  uint8_t element_bytes;
  uint8_t swizzle_bytes;  // of a row: 128, 64, 32, or 0
  bool rounds_to_tf32;

  int count(int axis) const {
    const auto i = static_cast<std::size_t>(axis);
    return (extent[i] + every[i] - 1) / every[i];
  }
  uint32_t box_bytes() const {
    return static_cast<uint32_t>(element_bytes * count(0) * count(1) * count(2) * count(3) * count(4));
  }
  // Null outside of the tensor.
  unsigned char* element(const std::array<int32_t, 5>& origin, const std::array<int32_t, 5>& at) const {
    int64_t offset = 0;
    for (std::size_t i = 0; i < 5; ++i) {
      const int64_t index = int64_t{origin[i]} + int64_t{at[i]} * every[i];
      if (index < 0 || index >= size[i]) return nullptr;
      offset += index * stride[i];
    }
    return data + offset;
  }
};

// Of a kernel's parameter; fails where the driver made none.
TensorMap tensor_map(const void* map);

// Where the byte at an address of rows of so many bytes lies, whose pattern repeats every 8 rows.
inline uint32_t swizzled(uint32_t address, int row_bytes) {
  return row_bytes == 0 ? address : address ^ (address >> 3 & static_cast<uint32_t>(row_bytes - 16));
}

}  // namespace emulator
