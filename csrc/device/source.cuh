// A tensor [N, C, D, H, W] that a loader reads: any strides, an optional ReLU mask applied on the way.
#pragma once

#include <cstdint>

#include "device/mask.cuh"
#include "device/numeric.cuh"

namespace convt3d {

// Offsets of one tensor in elements, from its strides.
struct Strides {
  int64_t n, c, d, h, w;

  __device__ __forceinline__ int64_t spatial(int64_t depth, int64_t height, int64_t width) const {
    return depth * d + height * h + width * w;
  }
};

template <typename T>
struct Source {
  const T* data;
  const T* mask;  // the ReLU's output, read only by masked kernels
  Strides stride;
  Strides mask_stride;
  int32_t size[3];  // D, H, W
  bool pieces;      // channels are contiguous, and every 16 bytes of them aligned and whole
  bool quads;       // channels are contiguous and every quad of them is aligned and whole, in data and mask

  __device__ __forceinline__ bool contains(int32_t d, int32_t h, int32_t w) const {
    return static_cast<uint32_t>(d) < static_cast<uint32_t>(size[0]) &&
           static_cast<uint32_t>(h) < static_cast<uint32_t>(size[1]) &&
           static_cast<uint32_t>(w) < static_cast<uint32_t>(size[2]);
  }
};

template <typename T>
__device__ __forceinline__ Quad<T> load_quad(const T* data, int64_t stride, int32_t count, bool vector) {
  if (vector) return load_quad_vector(data);
  Quad<T> quad = zero_quad<T>();
#pragma unroll
  for (int i = 0; i < kQuad; ++i) {
    if (i < count) quad.value[i] = __ldg(data + i * stride);
  }
  return quad;
}

// Channels [channel, channel + 4) at one position; `count` of them exist. Offsets are those of channel 0.
template <bool kMasked, typename T>
__device__ __forceinline__ Quad<T> load_channels(const Source<T>& source, int64_t offset, int64_t mask_offset,
                                                 int32_t channel, int32_t count) {
  Quad<T> quad = load_quad(source.data + offset + channel * source.stride.c, source.stride.c, count, source.quads);
  if constexpr (kMasked) {
    const Quad<T> mask = load_quad(source.mask + mask_offset + channel * source.mask_stride.c, source.mask_stride.c,
                                   count, source.quads);
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      apply_mask(quad.value[i], mask.value[i]);
    }
  }
  return quad;
}

}  // namespace convt3d
