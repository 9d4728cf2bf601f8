// What a call hands over beside its problem: tensors in device memory, modes, the stream. No torch type, no CUDA
// header.
#pragma once

#include <array>
#include <cstdint>

namespace convt3d {

using Stream = void*;  // cudaStream_t

// A tensor [N, C, D, H, W] (for a weight: [C_in, C_out/groups, kD, kH, kW]) in device memory.
struct ConstTensor {
  const void* data = nullptr;  // nullptr where an optional tensor is absent
  std::array<int64_t, 5> stride{};
};
struct MutableTensor {
  void* data = nullptr;
  std::array<int64_t, 5> stride{};
};
struct ConstVector {
  const void* data = nullptr;  // nullptr: absent
  int64_t stride = 0;
};

// What float32 may be rounded to on its way into the tensor cores; other types do not look at it.
enum class Float32Mode : int { kIeee, kTf32 };

}  // namespace convt3d
