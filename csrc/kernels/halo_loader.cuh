// Input tile with its halo -> planes of shared memory, zero outside the input.
#pragma once

#include "kernels/halo_params.h"
#include "kernels/matrix_element.cuh"

namespace convt3d {

constexpr int kHaloThreads = 256;

// Channels [channel, channel + 16 bytes' worth) of one position; zero from `count` on.
template <bool kVector, typename T, int kChannels>
__device__ __forceinline__ void load_piece(const Source<T>& source, int64_t offset, int channel, int count,
                                           T (&values)[kChannels]) {
  const T* data = source.data + offset + channel * source.stride.c;
#pragma unroll
  for (int i = 0; i < kChannels; ++i) values[i] = from_accumulator<T>(0.0f);
  if constexpr (kVector) {
    if (count > 0) *reinterpret_cast<uint4*>(values) = __ldg(reinterpret_cast<const uint4*>(data));
  } else {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      if (i < count) values[i] = __ldg(data + i * source.stride.c);
    }
  }
}

// Walks the halo positions of one thread, `step` apart, without a division.
struct HaloCursor {
  int position;
  int d, h, w;

  __device__ __forceinline__ HaloCursor(const HaloPlan& plan, int first) : position(first) {
    w = first % plan.halo[2];
    const int rows = first / plan.halo[2];
    h = rows % plan.halo[1];
    d = rows / plan.halo[1];
  }
  __device__ __forceinline__ void advance(const HaloPlan& plan, const HaloCursor& step) {
    position += step.position;
    w += step.w;
    h += step.h;
    d += step.d;
    if (w >= plan.halo[2]) {
      w -= plan.halo[2];
      ++h;
    }
    if (h >= plan.halo[1]) {
      h -= plan.halo[1];
      ++d;
    }
  }
};

// `origin`: the source position of the tile's first halo position. `offset`: of the image and group.
template <typename T, bool kVector>
__device__ __forceinline__ void load_halo_tile(const HaloParams<T>& params, int64_t offset, const int (&origin)[3],
                                               int first_plane, unsigned char* planes) {
  constexpr int kChannels = kPieceChannels<T>;
  constexpr int kBatch = kVector ? 8 : 16 / kChannels * 2;  // pieces in flight: what hides the latency of memory
  const HaloPlan& plan = params.plan;
  const int positions = plan.halo[0] * plan.halo[1] * plan.halo[2];
  // Neighbouring threads read what is contiguous: planes of one position, or positions of one plane.
  const int plane_lanes = !kVector ? 1 : plan.chunk_planes % 8 == 0 ? 8 : plan.chunk_planes % 4 == 0 ? 4 : 2;
  const int first_lane = static_cast<int>(threadIdx.x) % plane_lanes;
  const HaloCursor step(plan, kHaloThreads / plane_lanes);
  HaloCursor cursor(plan, static_cast<int>(threadIdx.x) / plane_lanes);
  int plane = first_lane;
  bool inside = false;
  int64_t at = 0;
  const auto enter = [&] {
    inside = params.source.contains(origin[0] + cursor.d, origin[1] + cursor.h, origin[2] + cursor.w);
    at = offset + params.source.stride.spatial(origin[0] + cursor.d, origin[1] + cursor.h, origin[2] + cursor.w);
  };
  enter();
  while (cursor.position < positions) {
    alignas(16) T values[kBatch][kChannels];
    int destination[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const bool exists = cursor.position < positions;
      destination[b] = exists ? (plane * plan.plane_positions + cursor.position) * 16 : -1;
      const int channel = (first_plane + plane) * kChannels;
      load_piece<kVector>(params.source, at, channel, exists && inside ? plan.in_channels - channel : 0, values[b]);
      plane += plane_lanes;
      if (plane >= plan.chunk_planes) {
        plane = first_lane;
        cursor.advance(plan, step);
        enter();
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (destination[b] < 0) continue;
      *reinterpret_cast<uint4*>(planes + destination[b]) = to_matrix_piece<T>(values[b]);
    }
  }
}

}  // namespace convt3d
