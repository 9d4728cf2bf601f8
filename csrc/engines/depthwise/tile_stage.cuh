// A box of a tensor -> shared memory, as float32; zeros where the tensor has no element. A mask follows on the same
// way: zeros where the ReLU stopped a gradient.
#pragma once

#include "device/mask.cuh"
#include "engines/depthwise/params.cuh"
#include "engines/depthwise/tile_params.cuh"

namespace convt3d {

// Where a block's box begins; of whole vectors along the width, `before` places before the first that is read.
struct DepthwiseBoxOrigin {
  int64_t image;
  int32_t channel;
  int32_t at[3];
  int32_t before;

  __device__ __forceinline__ DepthwiseBoxOrigin(const DepthwiseBox& box, const DepthwiseTile& tile,
                                                int32_t first_channel)
      : image(tile.image), channel(first_channel) {
#pragma unroll
    for (int i = 0; i < 3; ++i) at[i] = box.first[i] + tile.at[i] * box.advance[i];
    before = box.row_quads() ? at[2] & (kQuad - 1) : 0;
    at[2] -= before;
  }
};

// kCount neighbours at a time: along the width, or along the channels where these are contiguous. `lanes` threads share
// a row of the box, [channel][depth][height] or, channels contiguous, [depth][height].
template <int kCount, typename T>
__device__ __forceinline__ void stage_rows(const DepthwiseLoad<T>& load, const DepthwiseBox& box,
                                           const DepthwiseBoxOrigin& origin, const DepthwiseTilePlan& plan, float* to) {
  static_assert(kCount == 1 || kCount == kQuad);
  const int32_t lane = static_cast<int32_t>(threadIdx.x) & (box.lanes - 1);
  const int32_t rows = (box.by_channels ? 1 : plan.tile_channels) * box.extent[0] * box.extent[1];
  const int32_t end = box.by_channels ? box.extent[2] : box.columns;
  int32_t first_x = lane * kCount;
  int32_t step = box.lanes * kCount;
  int32_t lane_channel = 0;
  if (box.by_channels) {
    const int32_t shift = plan.channel_shift - (kCount == kQuad ? 2 : 0);
    first_x = lane >> shift;
    step = box.lanes >> shift;
    lane_channel = (lane & ((1 << shift) - 1)) * kCount;
  }
  int32_t place[kCount];  // of the neighbours, from the first; pieces begin at even columns where these are split
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    place[e] = box.by_channels ? e * box.channel_pitch : box.column(e) * box.column_pitch;
  }
  const int64_t source_step = step * load.stride.w;
#pragma unroll 1
  for (int32_t row = static_cast<int32_t>(threadIdx.x) / box.lanes; row < rows;
       row += kDepthwiseTileThreads / box.lanes) {
    int32_t rest = row;
    const int32_t h = box.by_extent[1].take(rest);
    const int32_t d = box.by_extent[0].take(rest);
    const int32_t c = lane_channel + rest;
    const int32_t from_d = origin.at[0] + d;
    const int32_t from_h = origin.at[1] + h;
    const bool exists = depthwise_inside(from_d, load.size[0]) && depthwise_inside(from_h, load.size[1]) &&
                        origin.channel + c < plan.channels;
    int64_t offset = origin.image * load.stride.n + (origin.channel + c) * load.stride.c +
                     load.stride.spatial(from_d, from_h, origin.at[2] + first_x);
    float* const column = to + c * box.channel_pitch + d * box.plane_pitch + h;
#pragma unroll 1
    for (int32_t x = first_x; x < end; x += kDepthwiseLoadsAtATime * step) {
      T values[kDepthwiseLoadsAtATime][kCount];
#pragma unroll
      for (int i = 0; i < kDepthwiseLoadsAtATime; ++i, offset += source_step) {
        const int32_t at = x + i * step;
#pragma unroll
        for (int e = 0; e < kCount; ++e) values[i][e] = from_accumulator<T>(0.0f);
        if (!exists || at >= end || !depthwise_inside(origin.at[2] + at, load.size[2])) continue;
        if constexpr (kCount == kQuad) {
          *reinterpret_cast<Quad<T>*>(values[i]) = load_quad_vector(load.data + offset);
        } else {
          values[i][0] = __ldg(load.data + offset);
        }
      }
#pragma unroll
      for (int i = 0; i < kDepthwiseLoadsAtATime; ++i) {
        const int32_t at = x + i * step;
        if (at >= end) break;
        float* const first = column + box.column(at) * box.column_pitch;
        if (load.masks) {
#pragma unroll
          for (int e = 0; e < kCount; ++e) {
            if (is_masked(values[i][e])) first[place[e]] = 0;
          }
        } else {
#pragma unroll
          for (int e = 0; e < kCount; ++e) first[place[e]] = to_accumulator(values[i][e]);
        }
      }
    }
  }
}

// By all threads of a block, which do not wait for each other: what is loaded into one box has one order of threads.
// Returns the column of the first place that is read.
template <typename T>
__device__ __forceinline__ int32_t stage_box(const DepthwiseLoad<T>& load, const DepthwiseBox& box,
                                             const DepthwiseTile& tile, int32_t first_channel,
                                             const DepthwiseTilePlan& plan, float* to) {
  const DepthwiseBoxOrigin origin(box, tile, first_channel);
  if (box.quads) {
    stage_rows<kQuad>(load, box, origin, plan, to);
  } else {
    stage_rows<1>(load, box, origin, plan, to);
  }
  return origin.before;
}

}  // namespace convt3d
