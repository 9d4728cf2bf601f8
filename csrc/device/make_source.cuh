// A tensor of a call -> how kernels read it.
#pragma once

#include "core/access.h"
#include "core/call.h"
#include "device/source.cuh"

namespace convt3d {

static_assert(kAccessQuad == kQuad);

inline Strides to_strides(const std::array<int64_t, 5>& stride) {
  return {stride[0], stride[1], stride[2], stride[3], stride[4]};
}

template <typename T>
Source<T> make_source(ConstTensor tensor, ConstTensor mask, const Int3& size, ChannelAccess access) {
  Source<T> source{};
  source.data = static_cast<const T*>(tensor.data);
  source.mask = static_cast<const T*>(mask.data);
  source.stride = to_strides(tensor.stride);
  source.mask_stride = to_strides(mask.stride);
  for (int i = 0; i < 3; ++i) source.size[i] = static_cast<int32_t>(size[i]);
  source.pieces = access.pieces;
  source.quads = access.quads;
  return source;
}

}  // namespace convt3d
