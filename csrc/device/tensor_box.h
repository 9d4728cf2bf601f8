// A box of a tensor that TMA (the tensor memory accelerator) moves, as data. Knows nothing of CUDA; device/tensor_map.h
// turns it into what TMA reads.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>

namespace convt3d {

enum class BoxType : int { kFloat32, kTf32, kFloat16, kBFloat16 };

// A box of `extent` elements that moves through a tensor of 5 axes, the first contiguous.
struct TensorBox {
  const void* data;
  BoxType type;
  int32_t swizzle;  // of rows of 32, 64 or 128 bytes; 0: none
  uint64_t size[5];
  uint64_t stride[4];  // of the axes after the first, in bytes
  uint32_t extent[5];
  uint32_t every[5];  // of the extent's elements is in the box

  // `step`: bytes from an element to the next along the axis. The box has `count` elements, every `fold`-th.
  void set(int axis, int64_t elements, int64_t step, int32_t count, int32_t fold = 1) {
    size[axis] = static_cast<uint64_t>(elements);
    extent[axis] = static_cast<uint32_t>(count * fold);
    every[axis] = static_cast<uint32_t>(fold);
    if (axis > 0) stride[axis - 1] = static_cast<uint64_t>(step);
  }
};

// False where TMA cannot: addresses that are not aligned, strides that are zero or no multiples of 16
// bytes, boxes that are too large.
inline bool describable(const TensorBox& box) {
  if (reinterpret_cast<uintptr_t>(box.data) % 16 != 0) return false;
  for (const uint64_t stride : box.stride) {
    if (stride == 0 || stride % 16 != 0) return false;
  }
  for (const uint32_t extent : box.extent) {
    if (extent > 256) return false;
  }
  return true;
}

inline std::string to_string(const TensorBox& box) {
  std::ostringstream out;
  const auto add = [&](const char* name, const auto& values) {
    out << ' ' << name;
    for (const auto value : values) out << ' ' << value;
  };
  out << "type " << static_cast<int>(box.type) << ", address " << box.data << ", swizzle " << box.swizzle << ',';
  add("sizes", box.size);
  add("strides", box.stride);
  add("box", box.extent);
  add("every", box.every);
  return out.str();
}

}  // namespace convt3d
