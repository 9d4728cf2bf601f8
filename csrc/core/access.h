// What the strides and the address of a tensor allow: loads and stores of several elements at once.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>

#include "core/call.h"
#include "core/problem.h"

namespace convt3d {

constexpr int64_t kAccessQuad = 4;  // channels that the kernels of every engine take at once where they can

// Channels are contiguous, and at every position each `size` of a group's channels is whole and aligned.
inline bool has_pieces(const ConstTensor& tensor, int64_t element_bytes, int64_t channels_per_group, int64_t size) {
  for (const int i : {0, 2, 3, 4}) {
    if (tensor.stride[i] % size != 0) return false;
  }
  return tensor.stride[1] == 1 && channels_per_group % size == 0 &&
         reinterpret_cast<uintptr_t>(tensor.data) % std::min<uint64_t>(16, size * element_bytes) == 0;
}

inline bool has_quads(const ConstTensor& tensor, int64_t element_bytes, int64_t channels_per_group) {
  return has_pieces(tensor, element_bytes, channels_per_group, kAccessQuad);
}

// ... and of the mask, where there is one.
inline bool has_quads(const ConstTensor& tensor, const ConstTensor& mask, int64_t element_bytes,
                      int64_t channels_per_group) {
  return has_quads(tensor, element_bytes, channels_per_group) &&
         (mask.data == nullptr || has_quads(mask, element_bytes, channels_per_group));
}

// Rows along the width are contiguous, and each `count` of their `size` elements is whole and aligned.
inline bool has_row_pieces(const ConstTensor& tensor, int64_t element_bytes, int64_t size, int64_t count) {
  for (const int i : {0, 1, 2, 3}) {
    if (tensor.stride[i] % count != 0) return false;
  }
  return tensor.stride[4] == 1 && size % count == 0 &&
         reinterpret_cast<uintptr_t>(tensor.data) % (count * element_bytes) == 0;
}

// Positions of both tensors are as far apart as those of one axis, and few enough for 32 bits.
inline bool collapses(const ConstTensor& tensor, const ConstTensor& mask, const Int3& size) {
  const auto joins = [&](const ConstTensor& of) {
    return of.stride[3] == of.stride[4] * size[2] && of.stride[2] == of.stride[3] * size[1];
  };
  return joins(tensor) && (mask.data == nullptr || joins(mask)) && size[0] * size[1] * size[2] <= INT_MAX;
}

inline ConstTensor as_const(const MutableTensor& tensor) { return {tensor.data, tensor.stride}; }

}  // namespace convt3d
