// What the strides and the address of a tensor allow: loads and stores of several elements at once.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>

#include "core/operands.h"
#include "core/problem.h"

namespace convt3d {

constexpr int64_t kAccessQuad = 4;  // channels that the kernels of every engine take at once where they can

// Channels are contiguous, and at every position each `size` of a group's channels is whole and aligned.
inline bool has_pieces(const OperandTraits& tensor, int64_t element_bytes, int64_t channels_per_group, int64_t size) {
  for (const int i : {0, 2, 3, 4}) {
    if (tensor.stride[i] % size != 0) return false;
  }
  return tensor.stride[1] == 1 && channels_per_group % size == 0 &&
         tensor.address % std::min<int64_t>(kAddressModulus, size * element_bytes) == 0;
}

inline bool has_quads(const OperandTraits& tensor, int64_t element_bytes, int64_t channels_per_group) {
  return has_pieces(tensor, element_bytes, channels_per_group, kAccessQuad);
}

// The same of a tensor and of its mask, where there is one.
inline bool has_quads(const OperandTraits& tensor, const OperandTraits& mask, int64_t element_bytes,
                      int64_t channels_per_group) {
  return has_quads(tensor, element_bytes, channels_per_group) &&
         (!mask.present || has_quads(mask, element_bytes, channels_per_group));
}

// Rows along the width are contiguous, and each `count` of their `size` elements is whole and aligned.
inline bool has_row_pieces(const OperandTraits& tensor, int64_t element_bytes, int64_t size, int64_t count) {
  for (const int i : {0, 1, 2, 3}) {
    if (tensor.stride[i] % count != 0) return false;
  }
  return tensor.stride[4] == 1 && size % count == 0 && tensor.address % (count * element_bytes) == 0;
}

// Positions of both tensors are as far apart as those of one axis, and few enough for 32 bits.
inline bool collapses(const OperandTraits& tensor, const OperandTraits& mask, const Int3& size) {
  const auto joins = [&](const OperandTraits& of) {
    return of.stride[3] == of.stride[4] * size[2] && of.stride[2] == of.stride[3] * size[1];
  };
  return joins(tensor) && (!mask.present || joins(mask)) && size[0] * size[1] * size[2] <= INT_MAX;
}

// How kernels that read channels take them.
struct ChannelAccess {
  bool pieces;  // channels are contiguous, and every 16 bytes of them aligned and whole
  bool quads;   // likewise every quad of them, of the mask too
};

inline ChannelAccess channel_access(const OperandTraits& tensor, const OperandTraits& mask, int64_t element_bytes,
                                    int64_t channels_per_group) {
  return {has_pieces(tensor, element_bytes, channels_per_group, 16 / element_bytes),
          has_quads(tensor, mask, element_bytes, channels_per_group)};
}

}  // namespace convt3d
