// An operand that is copied with its channels last, as a kernel reads it.
#pragma once

#include "device/channels_last_copies.h"
#include "device/make_source.cuh"

namespace convt3d {

// Copies a range, and returns how the kernel behind reads it: as all of the operand, of which it finds no more than
// this.
template <typename T>
Source<T> copied_source(const OperandCopy& copy, const CopiedRange& range, ConstTensor tensor, ConstTensor mask,
                        void* to, Stream stream) {
  copy_channels_last<T>(copy, range, tensor, mask, to, stream);
  Source<T> source = make_source<T>({}, {}, copy.size, {});
  const int64_t w = copy.groups * copy.padded;
  const int64_t h = w * copy.size[2];
  const int64_t d = h * copy.size[1];
  source.stride = {w * copy.image_positions(), 1, d, h, w};
  source.data = static_cast<const T*>(to) - (range.first_image * source.stride.n + range.depths.first * d);
  return source;
}

}  // namespace convt3d
