// Depthwise forward with long kernels, and input gradient: a block computes a tile of positions of one or several
// channels; a thread at a time owns a run of neighbours along the height.
#pragma once

#include "engines/depthwise/tile_stage.cuh"
#include "epilogue/apply.cuh"

namespace convt3d {

// Weights of the block's channels, [channel][depth][width][slot of the height], by all threads of a block.
template <typename T>
__device__ __forceinline__ void stage_tap_slots(const DepthwiseTileParams<T>& params, int32_t first_channel,
                                                float* weights) {
  const DepthwiseTilePlan& plan = params.plan;
  const uint32_t depth = plan.taps[0];
  const uint32_t height = plan.taps[1];
  const uint32_t width = plan.taps[2];
  const int32_t existing = min(plan.tile_channels, plan.channels - first_channel);
  const uint32_t count = existing * depth * width * height;
  // In a forward, the rows of the source that an output reads fall as taps rise.
  const bool turned = plan.op == Operator::kForward && plan.run != DepthwiseRun::kSpread;
#pragma unroll 1
  for (uint32_t index = threadIdx.x; index < count; index += kDepthwiseTileThreads) {
    uint32_t rest = index / width;
    const uint32_t w = index - rest * width;
    const uint32_t plane = rest / height;
    const uint32_t h = rest - plane * height;
    const uint32_t channel = plane / depth;
    const uint32_t d = plane - channel * depth;
    const T* const place = params.weight + (first_channel + static_cast<int64_t>(channel)) * params.weight_stride.n +
                           params.weight_stride.spatial(d, h, w);
    const uint32_t slot = plan.first_slot + (turned ? height - 1 - h : h);
    weights[channel * plan.weight_pitch() + (d * width + w) * kDepthwiseTapSlots + slot] = to_accumulator(__ldg(place));
  }
}

// Along depth or width: where the position `x` of a tile meets its first tap in the box, and the taps from there on.
struct DepthwiseWalk {
  int32_t first;
  int32_t tap;
  int32_t count;

  __device__ __forceinline__ DepthwiseWalk(const DepthwiseTilePlan& plan, int axis, int32_t x) {
    const OneOrTwo stride = plan.stride[axis];
    if (plan.op == Operator::kForward) {
      const int32_t shifted = x + plan.padding[axis];
      tap = stride.remainder(shifted);
      first = stride.quotient(shifted) - plan.box[0].first[axis];
      count = stride.quotient(plan.taps[axis] - tap + stride - 1);
    } else {
      tap = 0;
      first = x * stride;
      count = plan.taps[axis];
    }
  }
};

// One row of taps along the height, of all of a run. `rows`: what the run's first row is, of a column of the box.
template <DepthwiseRun kRun, typename Taps>
__device__ __forceinline__ void multiply_run(const float* rows, const float* slots, Taps taps, int32_t first_slot,
                                             int32_t skipped_rows, float (&sum)[depthwise_run_length(kRun)]) {
  constexpr int kLength = depthwise_run_length(kRun);
  constexpr int kRows = depthwise_run_rows(kRun);
  float row[kRows];
  float weight[kDepthwiseTapSlots];
#pragma unroll
  for (int i = 0; i < kDepthwiseTapSlots; i += kQuad) {
    const Quad<float> four = *reinterpret_cast<const Quad<float>*>(slots + i);
#pragma unroll
    for (int e = 0; e < kQuad; ++e) weight[i + e] = four.value[e];
  }
  if constexpr (kRun == DepthwiseRun::kSpread) {
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      if (j >= 3 || j >= skipped_rows) row[j] = rows[j - skipped_rows];
    }
#pragma unroll
    for (int k = 0; k < kDepthwiseTapSlots; ++k) {
      if (k < first_slot || k >= first_slot + taps) continue;
#pragma unroll
      for (int r = k % 2; r < kLength; r += 2) sum[r] += row[(r - k) / 2 + 3] * weight[k];
    }
  } else {
    constexpr int kStep = kRun == DepthwiseRun::kStep2 ? 2 : 1;
    constexpr int kWhole = (kLength - 1) * kStep + 1;  // rows of a single tap
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      if (j < kWhole || j < kWhole - 1 + taps) row[j] = rows[j];
    }
#pragma unroll
    for (int k = 0; k < kDepthwiseMaxTaps; ++k) {
      if (k >= taps) break;
#pragma unroll
      for (int r = 0; r < kLength; ++r) sum[r] += row[r * kStep + k] * weight[k];
    }
  }
}

template <typename T, DepthwiseRun kRun>
__global__ __launch_bounds__(kDepthwiseTileThreads, 3) void convt3d_depthwise_tile_correlation(
    const __grid_constant__ DepthwiseTileParams<T> params) {
  constexpr int kLength = depthwise_run_length(kRun);
  const DepthwiseTilePlan& plan = params.plan;
  const DepthwiseBox& box = plan.box[0];
  const Strides& to = params.destination_stride;
  const auto block = static_cast<int32_t>(blockIdx.x);
  // Neighbouring blocks have neighbouring channels, where these are neighbours in memory; else neighbouring tiles.
  const auto positions = static_cast<int32_t>(plan.positions());
  const int32_t channel_tile = plan.by_channels ? block % plan.channel_tiles : block / positions % plan.channel_tiles;
  const DepthwiseTile tile(plan, plan.by_channels ? block / plan.channel_tiles : block % positions);
  const int32_t first_channel = channel_tile * plan.tile_channels;
  float* const weights = reinterpret_cast<float*>(dynamic_shared_memory);
  float* const staged = weights + plan.tile_channels * plan.weight_pitch();
  stage_tap_slots(params, first_channel, weights);
  int32_t before = 0;
#pragma unroll 1
  for (int i = 0; i < params.loads; ++i) {
    before = stage_box(params.load[i], box, tile, first_channel, plan, staged);
  }
  __syncthreads();

  const int32_t runs = plan.tile[1] / kLength;
  const int32_t items = plan.tile_channels * plan.tile[0] * runs * plan.tile[2];
#pragma unroll 1
  for (int32_t item = static_cast<int32_t>(threadIdx.x); item < items; item += kDepthwiseTileThreads) {
    int32_t rest = item;
    int32_t c = 0;
    if (plan.by_channels) {
      c = item & (plan.tile_channels - 1);
      rest = item >> plan.channel_shift;
    }
    const int32_t w = plan.by_tile[2].take(rest);
    const int32_t run = plan.by_tile[1].take(rest);
    const int32_t d = plan.by_tile[0].take(rest);
    if (!plan.by_channels) c = rest;
    const int32_t channel = first_channel + c;
    const int32_t to_d = tile.at[0] * plan.tile[0] + d;
    const int32_t to_w = tile.at[2] * plan.tile[2] + w;
    const int32_t to_h = tile.at[1] * plan.tile[1] + run * kLength;
    if (channel >= plan.channels || to_d >= plan.size[0] || to_h >= plan.size[1] || to_w >= plan.size[2]) continue;

    const DepthwiseWalk depth(plan, 0, d);
    const DepthwiseWalk width(plan, 2, w);
    const bool rises = plan.op != Operator::kForward;
    const int32_t step = rises ? 1 : -1;
    const int32_t tap_step_d = rises ? 1 : plan.stride[0];
    const int32_t tap_step_w = rises ? 1 : plan.stride[2];
    const int32_t first_row = kRun == DepthwiseRun::kStep2    ? run * kLength * 2
                              : kRun == DepthwiseRun::kSpread ? run * kLength / 2
                                                              : run * kLength;
    const float* const channel_box = staged + c * box.channel_pitch + first_row;
    const float* const channel_weights = weights + c * plan.weight_pitch();
    const float bias = bias_of<T>(params.epilogue, channel);
    // Two levels keep the rounding of long sums small.
    float sum[kLength];
#pragma unroll
    for (int r = 0; r < kLength; ++r) sum[r] = bias;
    with_taps(plan.taps[1], [&](auto taps) {
#pragma unroll 1
      for (int32_t j = 0; j < depth.count; ++j) {
        const float* const plane = channel_box + (depth.first + j * step) * box.plane_pitch;
        const float* slots =
            channel_weights + ((depth.tap + j * tap_step_d) * plan.taps[2] + width.tap) * kDepthwiseTapSlots;
        float part[kLength] = {};
        int32_t x = width.first + before;
#pragma unroll 1
        for (int32_t k = 0; k < width.count; ++k) {
          multiply_run<kRun>(plane + box.column(x) * box.column_pitch, slots, taps, plan.first_slot, plan.skipped_rows,
                             part);
          x += step;
          slots += tap_step_w * kDepthwiseTapSlots;
        }
#pragma unroll
        for (int r = 0; r < kLength; ++r) sum[r] += part[r];
      }
    });
    activate(params.epilogue, sum, kLength);
    T* const destination = params.destination + tile.image * to.n + channel * to.c + to.spatial(to_d, to_h, to_w);
    const int32_t left = plan.size[1] - to_h;
#pragma unroll
    for (int r = 0; r < kLength; ++r) {
      if (r < left) destination[r * to.h] = from_accumulator<T>(sum[r]);
    }
  }
}

}  // namespace convt3d
