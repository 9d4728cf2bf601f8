// A box of a tensor -> shared memory, as float32; zeros where the tensor has no element or the ReLU stopped a gradient.
#pragma once

#include "engines/depthwise/params.cuh"
#include "engines/depthwise/tile_params.cuh"

namespace convt3d {

// kCount neighbours; zeros where they do not exist.
template <int kCount, typename T>
__device__ __forceinline__ void load_neighbours(const Source<T>& source, int64_t offset, int64_t mask_offset,
                                                bool exist, T (&values)[kCount]) {
  static_assert(kCount == 1 || kCount == kQuad);
  const T zero = from_accumulator<T>(0.0f);
#pragma unroll
  for (int e = 0; e < kCount; ++e) values[e] = zero;
  if (!exist) return;
  T mask[kCount];
  if constexpr (kCount == kQuad) {
    *reinterpret_cast<Quad<T>*>(values) = load_quad_vector(source.data + offset);
    if (source.mask != nullptr) *reinterpret_cast<Quad<T>*>(mask) = load_quad_vector(source.mask + mask_offset);
  } else {
    values[0] = __ldg(source.data + offset);
    if (source.mask != nullptr) mask[0] = __ldg(source.mask + mask_offset);
  }
  if (source.mask == nullptr) return;
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    // As PyTorch's threshold_backward: a NaN in the output lets the gradient through.
    if (to_accumulator(mask[e]) <= 0) values[e] = zero;
  }
}

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

// Neighbouring threads load neighbours along the width, kCount each, of the box's rows.
template <int kCount, typename T>
__device__ __forceinline__ void stage_rows(const Source<T>& source, const DepthwiseBox& box,
                                           const DepthwiseBoxOrigin& origin, const DepthwiseTilePlan& plan, float* to) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) & (box.lanes - 1);
  const int32_t rows = plan.tile_channels * box.extent[0] * box.extent[1];
  const int32_t pieces = box.columns / kCount;
  int32_t place[kCount];  // of a piece's elements, from the first: pieces begin at even columns where these are split
#pragma unroll
  for (int e = 0; e < kCount; ++e) place[e] = box.column(e) * box.column_pitch;
#pragma unroll 1
  for (int32_t row = static_cast<int32_t>(threadIdx.x) / box.lanes; row < rows;
       row += kDepthwiseTileThreads / box.lanes) {
    int32_t rest = row;
    const int32_t h = box.by_extent[1].take(rest);
    const int32_t d = box.by_extent[0].take(rest);
    const int32_t channel = origin.channel + rest;
    const int32_t from_d = origin.at[0] + d;
    const int32_t from_h = origin.at[1] + h;
    const bool exists =
        depthwise_inside(from_d, source.size[0]) && depthwise_inside(from_h, source.size[1]) && channel < plan.channels;
    const int64_t line =
        origin.image * source.stride.n + channel * source.stride.c + source.stride.spatial(from_d, from_h, 0);
    const int64_t mask_line = origin.image * source.mask_stride.n + channel * source.mask_stride.c +
                              source.mask_stride.spatial(from_d, from_h, 0);
    float* const column = to + rest * box.channel_pitch + d * box.plane_pitch + h;
#pragma unroll 1
    for (int32_t first = lane; first < pieces; first += box.lanes * kDepthwiseLoadsAtATime) {
      T values[kDepthwiseLoadsAtATime][kCount];
#pragma unroll
      for (int i = 0; i < kDepthwiseLoadsAtATime; ++i) {
        const int32_t piece = first + i * box.lanes;
        const int32_t w = origin.at[2] + piece * kCount;
        load_neighbours(source, line + w * (kCount == 1 ? source.stride.w : 1),
                        mask_line + w * (kCount == 1 ? source.mask_stride.w : 1),
                        exists && piece < pieces && depthwise_inside(w, source.size[2]), values[i]);
      }
#pragma unroll
      for (int i = 0; i < kDepthwiseLoadsAtATime; ++i) {
        const int32_t piece = first + i * box.lanes;
        if (piece >= pieces) break;
        float* const first_place = column + box.column(piece * kCount) * box.column_pitch;
#pragma unroll
        for (int e = 0; e < kCount; ++e) first_place[place[e]] = to_accumulator(values[i][e]);
      }
    }
  }
}

// Neighbouring threads load neighbouring channels, kCount each, and then the places of a row.
template <int kCount, typename T>
__device__ __forceinline__ void stage_channels(const Source<T>& source, const DepthwiseBox& box,
                                               const DepthwiseBoxOrigin& origin, const DepthwiseTilePlan& plan,
                                               float* to) {
  const int32_t shift = plan.channel_shift - (kCount == kQuad ? 2 : 0);  // pieces of a place
  const int32_t lane = static_cast<int32_t>(threadIdx.x) & (box.lanes - 1);
  const int32_t rows = box.extent[0] * box.extent[1];
  const int32_t pieces = box.extent[2] << shift;
#pragma unroll 1
  for (int32_t row = static_cast<int32_t>(threadIdx.x) / box.lanes; row < rows;
       row += kDepthwiseTileThreads / box.lanes) {
    int32_t d = row;
    const int32_t h = box.by_extent[1].take(d);
    const int32_t from_d = origin.at[0] + d;
    const int32_t from_h = origin.at[1] + h;
    const bool exists = depthwise_inside(from_d, source.size[0]) && depthwise_inside(from_h, source.size[1]);
    const int64_t line = origin.image * source.stride.n + source.stride.spatial(from_d, from_h, 0);
    const int64_t mask_line = origin.image * source.mask_stride.n + source.mask_stride.spatial(from_d, from_h, 0);
    float* const column = to + d * box.plane_pitch + h;
#pragma unroll 1
    for (int32_t first = lane; first < pieces; first += box.lanes * kDepthwiseLoadsAtATime) {
      T values[kDepthwiseLoadsAtATime][kCount];
#pragma unroll
      for (int i = 0; i < kDepthwiseLoadsAtATime; ++i) {
        const int32_t piece = first + i * box.lanes;
        const int32_t w = origin.at[2] + (piece >> shift);
        const int32_t channel = origin.channel + (piece & ((1 << shift) - 1)) * kCount;
        load_neighbours(source, line + w * source.stride.w + channel * source.stride.c,
                        mask_line + w * source.mask_stride.w + channel * source.mask_stride.c,
                        exists && piece < pieces && depthwise_inside(w, source.size[2]) && channel < plan.channels,
                        values[i]);
      }
#pragma unroll
      for (int i = 0; i < kDepthwiseLoadsAtATime; ++i) {
        const int32_t piece = first + i * box.lanes;
        if (piece >= pieces) break;
        float* const place = column + box.column(piece >> shift) * box.column_pitch +
                             (piece & ((1 << shift) - 1)) * kCount * box.channel_pitch;
#pragma unroll
        for (int e = 0; e < kCount; ++e) {
          place[e * box.channel_pitch] = to_accumulator(values[i][e]);
        }
      }
    }
  }
}

// By all threads of a block, which do not wait for each other. Returns the column of the first place that is read.
template <typename T>
__device__ __forceinline__ int32_t stage_box(const Source<T>& source, const DepthwiseBox& box,
                                             const DepthwiseTile& tile, int32_t first_channel,
                                             const DepthwiseTilePlan& plan, float* to) {
  const DepthwiseBoxOrigin origin(box, tile, first_channel);
  if (box.by_channels) {
    if (box.quads) {
      stage_channels<kQuad>(source, box, origin, plan, to);
    } else {
      stage_channels<1>(source, box, origin, plan, to);
    }
  } else if (box.quads) {
    stage_rows<kQuad>(source, box, origin, plan, to);
  } else {
    stage_rows<1>(source, box, origin, plan, to);
  }
  return origin.before;
}

}  // namespace convt3d
