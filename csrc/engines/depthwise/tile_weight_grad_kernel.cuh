// Depthwise weight gradient: a block sums the products of its channels over one tile of positions after another, in
// shared memory, and writes a partial sum; device/ordered_sum.cuh adds the partial sums. A thread owns one row of taps
// along the height, for one channel and a part of a tile's columns.
#pragma once

#include "device/ordered_sum.cuh"
#include "engines/depthwise/tile_stage.cuh"

namespace convt3d {

// kLength neighbours of the input along the height, and the rows of grad_output that their taps meet.
template <int kLength, int kStep, typename Taps>
__device__ __forceinline__ void add_products(const float* inputs, const float* rows, Taps taps,
                                             float (&sum)[kDepthwiseMaxTaps]) {
  constexpr int kWhole = (kLength - 1) * kStep + 1;  // rows of a single tap
  float input[kLength];
  float row[kWhole - 1 + kDepthwiseMaxTaps];
#pragma unroll
  for (int r = 0; r < kLength; ++r) input[r] = inputs[r];
#pragma unroll
  for (int j = 0; j < kWhole - 1 + kDepthwiseMaxTaps; ++j) {
    if (j < kWhole || j < kWhole - 1 + taps) row[j] = rows[j];
  }
#pragma unroll
  for (int k = 0; k < kDepthwiseMaxTaps; ++k) {
    if (k >= taps) break;
#pragma unroll
    for (int r = 0; r < kLength; ++r) sum[k] += input[r] * row[r * kStep + k];
  }
}

// The part of a tile's box of grad_output that is the bias's gradient, which no other tile has: of a thread's channel
// and its columns. Threads lie along the channels first. Past the last output there are zeros.
__device__ __forceinline__ float sum_outputs(const DepthwiseTilePlan& plan, const float* staged, int32_t first_column) {
  const DepthwiseBox& box = plan.box[0];
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const float* const of_channel = staged + (thread & (plan.tile_channels - 1)) * box.channel_pitch;
  const int32_t width = plan.tile[2] * plan.stride[2];
  const int32_t columns = plan.tile[0] * plan.stride[0] * width;
  const int32_t height = plan.tile[1] * plan.stride[1];
  float sum = 0;
#pragma unroll 1
  for (int32_t i = thread >> plan.channel_shift; i < columns; i += kDepthwiseTileThreads >> plan.channel_shift) {
    const int32_t d = i / width;
    const int32_t w = i - d * width;
    const float* const column = of_channel + (plan.bias_first[0] + d) * box.plane_pitch +
                                box.column(plan.bias_first[2] + w + first_column) * box.column_pitch +
                                plan.bias_first[1];
#pragma unroll 4
    for (int32_t h = 0; h < height; ++h) sum += column[h];
  }
  return sum;
}

// A thread's sum of these. It lies where the doubles do that all threads add in the end.
__device__ __forceinline__ float* output_sum(const DepthwiseTilePlan& plan) {
  return reinterpret_cast<float*>(dynamic_shared_memory) + plan.bias_offset + threadIdx.x;
}

// Blocks that share a multiprocessor: as many as need no spilled register. On 7.5 shared memory has room for one.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kDepthwiseSumBlocks = 2;
#else
constexpr int kDepthwiseSumBlocks = 3;
#endif

template <typename T, DepthwiseRun kRun>
__global__ __launch_bounds__(kDepthwiseTileThreads, kDepthwiseSumBlocks) void convt3d_depthwise_tile_weight_grad(
    const __grid_constant__ DepthwiseTileParams<T> params) {
  static_assert(kRun != DepthwiseRun::kSpread, "of an input, taps lie beside each other");
  constexpr int kLength = depthwise_run_length(kRun);
  constexpr int kStep = kRun == DepthwiseRun::kStep2 ? 2 : 1;
  const DepthwiseTilePlan& plan = params.plan;
  const DepthwiseBox& box = plan.box[0];
  const DepthwiseBox& input_box = plan.box[1];
  const auto channel_tile = static_cast<int32_t>(blockIdx.x % static_cast<uint32_t>(plan.channel_tiles));
  const auto split = static_cast<int32_t>(blockIdx.x / static_cast<uint32_t>(plan.channel_tiles));
  const int32_t first_channel = channel_tile * plan.tile_channels;
  const int32_t taps = plan.taps[1];
  const int32_t owners = plan.tile_channels * plan.pairs() * plan.sharing;
  float* const staged = reinterpret_cast<float*>(dynamic_shared_memory);
  float* const inputs = staged + plan.input_offset;
  float* const sums = staged + plan.sums_offset;  // [tap of the height][owner]
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < owners * taps; i += kDepthwiseTileThreads) sums[i] = 0;
  if (plan.has_bias()) *output_sum(plan) = 0;

  const auto positions = static_cast<int32_t>(plan.positions());
  const int32_t first_tile = split * plan.split_tiles;
  const int32_t last_tile = min(first_tile + plan.split_tiles, positions);
#pragma unroll 1
  for (int32_t number = first_tile; number < last_tile; ++number) {
    const DepthwiseTile tile(plan, number);
    __syncthreads();
    int32_t before[2] = {};
#pragma unroll 1
    for (int i = 0; i < params.loads; ++i) {
      const int32_t of = params.load[i].box;
      const int32_t begins =
          stage_box(params.load[i], plan.box[of], tile, first_channel, plan, of == 0 ? staged : inputs);
      before[0] = of == 0 ? begins : before[0];
      before[1] = begins;  // the last one is the input
    }
    __syncthreads();
    if (plan.has_bias()) *output_sum(plan) += sum_outputs(plan, staged, before[0]);
    // Positions past the input's end would multiply what is there of grad_output by nothing, which is no zero where it
    // is not finite.
    int32_t existing[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) existing[i] = min(plan.tile[i], plan.size[i] - tile.at[i] * plan.tile[i]);

#pragma unroll 1
    for (int32_t owner = static_cast<int32_t>(threadIdx.x); owner < owners; owner += kDepthwiseTileThreads) {
      auto rest = static_cast<uint32_t>(owner);
      uint32_t c = 0;
      const auto take = [&](int32_t count) {
        const uint32_t whole = rest / static_cast<uint32_t>(count);
        const uint32_t part = rest - whole * count;
        rest = whole;
        return part;
      };
      if (plan.by_channels) c = take(plan.tile_channels);
      const uint32_t part = take(plan.sharing);
      const auto tap_w = static_cast<int32_t>(take(plan.taps[2]));
      const auto tap_d = static_cast<int32_t>(take(plan.taps[0]));
      if (!plan.by_channels) c = rest;
      const float* const of_channel = staged + c * box.channel_pitch;
      const float* const inputs_of_channel = inputs + c * input_box.channel_pitch;

      float sum[kDepthwiseMaxTaps] = {};
      with_taps(taps, [&](auto known_taps) {
#pragma unroll 1
        for (auto place = static_cast<int32_t>(part); place < plan.tile[0] * plan.tile[2]; place += plan.sharing) {
          int32_t d = place;
          const int32_t w = plan.by_tile[2].take(d);
          if (d >= existing[0] || w >= existing[2]) continue;
          const float* rows = of_channel + (d * plan.stride[0] + tap_d) * box.plane_pitch +
                              box.column(w * plan.stride[2] + tap_w + before[0]) * box.column_pitch;
          const float* column =
              inputs_of_channel + d * input_box.plane_pitch + (w + before[1]) * input_box.column_pitch;
          int32_t left = existing[1];
#pragma unroll 1
          for (; left >= kLength; left -= kLength, column += kLength, rows += kLength * kStep) {
            add_products<kLength, kStep>(column, rows, known_taps, sum);
          }
#pragma unroll 1
          for (; left > 0; --left, ++column, rows += kStep) add_products<1, kStep>(column, rows, known_taps, sum);
        }
      });
#pragma unroll
      for (int k = 0; k < kDepthwiseMaxTaps; ++k) {
        if (k < taps) sums[k * owners + owner] += sum[k];
      }
    }
  }
  __syncthreads();

  // The threads that shared a sum, one after the other.
  const int32_t results = plan.tile_channels * plan.pairs() * taps;
  float* const partial = params.partial + (static_cast<int64_t>(split) * plan.channel_tiles + channel_tile) * results;
#pragma unroll 1
  for (int32_t result = static_cast<int32_t>(threadIdx.x); result < results; result += kDepthwiseTileThreads) {
    const int32_t row = result / taps;
    const int32_t c = row / plan.pairs();
    const int32_t pair = row - c * plan.pairs();
    const int32_t next = plan.by_channels ? plan.tile_channels : 1;
    const int32_t first =
        plan.by_channels ? pair * plan.sharing * plan.tile_channels + c : (c * plan.pairs() + pair) * plan.sharing;
    const float* const of_tap = sums + (result - row * taps) * owners + first;
    float sum = 0;
    for (int32_t i = 0; i < plan.sharing; ++i) sum += of_tap[i * next];
    partial[result] = sum;
  }
  if (!plan.has_bias()) return;
  const double mine = *output_sum(plan);
  __syncthreads();
  auto& shared = *reinterpret_cast<double (*)[kDepthwiseTileThreads]>(staged + plan.bias_offset);
  const double total = sum_over_threads(mine, plan.tile_channels, shared);
  const auto c = static_cast<int32_t>(threadIdx.x);
  if (c < plan.tile_channels && first_channel + c < plan.channels) {
    params.bias_partial[static_cast<int64_t>(split) * plan.channels + first_channel + c] = static_cast<float>(total);
  }
}

}  // namespace convt3d
