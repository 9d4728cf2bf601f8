// Depthwise weight gradient by patches: a warp has the sums of one tap of the depth, and all of height and width, in
// registers. Its threads walk along the height, each at neighbouring places of the width or neighbouring channels; what
// they sum joins the block's sums in shared memory, and device/ordered_sum.cuh adds those of the blocks.
#pragma once

#include "engines/depthwise/patch_walk.cuh"

namespace convt3d {

// Of a thread's channels: products with each tap of height and width and, for the bias, rows of grad_output.
template <typename Taps, int kChannels>
struct DepthwisePatchSums {
  float tap[Taps::kTaps][Taps::kTaps][kChannels];
  float row[kChannels];
};

// Adds the products of kWidth neighbours of the input, row after row, to the sums of their taps. A row of grad_output
// is read once, and meets all rows of the input that are kept for it. `source` and `input`: of the depth, height and
// width 0. `sums_rows`: with the taps in the middle of height and width, rows are summed themselves.
template <int kWidth, typename T, typename Taps, DepthwisePatchAccess kAccess, int kChannels>
__device__ __forceinline__ void walk_rows(const DepthwisePatchParams<T>& params, const unsigned char* source,
                                          const unsigned char* input, const DepthwiseWalkSpan& span, bool sums_rows,
                                          DepthwisePatchSums<Taps, kChannels>& sum) {
  constexpr int kStride = Taps::kStride;
  constexpr int kTaps = Taps::kTaps;
  constexpr int kSets = Taps::kSets;
  // Where registers suffice, so that what is kept needs no moves between them.
  constexpr int kUnrolled = kTaps <= 3 && kChannels == 1 ? kSets : 1;
  using Row = DepthwisePatchRow<T, Taps, kAccess, kWidth, kChannels>;
  // A thread that has one channel reads neighbours along the width as a vector.
  constexpr int kVector = kAccess == DepthwisePatchAccess::kChannels ? kChannels : kWidth;
  using Input = DepthwisePiece<T, kVector>;
  constexpr int kInputs = kWidth * kChannels / kVector;
  const DepthwisePatchPlan& plan = params.plan;
  const Strides& from = params.source.step;
  const Strides& in = params.input.step;

  int32_t from_h = span.h * kStride - plan.padding[1];
  const int32_t from_w = span.w * kStride - plan.padding[2];
  const uint32_t columns = existing_places(from_w, plan.source_size[2]);
  source += from_h * from.h + from_w * from.w;
  input += span.h * in.h + span.w * in.w;

  struct Step {
    Row row[kStride];
    Input input[kInputs];
  };
  const auto load = [&](Step& step, int32_t number) {
#pragma unroll
    for (int e = 0; e < kStride; ++e, ++from_h, source += from.h) {
      step.row[e].load(source, from.w, depthwise_inside(from_h, plan.source_size[1]) ? columns : 0);
    }
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      step.input[i].load_if(number < span.rows, input + i * in.w);
    }
    input += in.h;
  };

  float kept[kSets][kWidth][kChannels] = {};  // rows of the input, the last one first
  // What does not exist of the input is left out and not multiplied by zero: grad_output may be infinite there.
  const auto multiply = [&](const Step& step, auto whole, int32_t number) {
#pragma unroll
    for (int e = 0; e < kStride; ++e) {
#pragma unroll
      for (int i = 0; i < kSets; ++i) {
        const int tap_h = i * kStride + e;
        if (tap_h >= kTaps) continue;
        if constexpr (!decltype(whole)::value) {
          if (number < i || number - i >= span.rows) continue;
        }
#pragma unroll
        for (int p = 0; p < kWidth; ++p) {
#pragma unroll
          for (int tap_w = 0; tap_w < kTaps; ++tap_w) {
#pragma unroll
            for (int c = 0; c < kChannels; ++c) {
              sum.tap[tap_h][tap_w][c] += kept[i][p][c] * step.row[e].value(p * kStride + tap_w, c);
            }
          }
        }
        if (!Taps::is_in_middle(tap_h) || !sums_rows) continue;
#pragma unroll
        for (int column = Taps::kPadding; column < Taps::kPadding + kWidth * kStride; ++column) {
#pragma unroll
          for (int c = 0; c < kChannels; ++c) sum.row[c] += step.row[e].value(column, c);
        }
      }
    }
  };

  walk_steps<kSets, kUnrolled, Step>(span.rows, load, [&](const Step& step, auto whole, int32_t number) {
    keep_row<kVector>(step.input, kept);
    multiply(step, whole, number);
  });
}

// Blocks that share a multiprocessor: as many as need no spilled register.
template <typename Taps, bool kHasBias>
constexpr int kDepthwisePatchSumBlocks = Taps::kTaps > 5 && kHasBias                   ? 1
                                         : Taps::kTaps > 3 && kDepthwisePatchFewBlocks ? 1
                                                                                       : 2;

template <typename T, typename Taps, DepthwisePatchAccess kAccess, bool kHasBias>
__global__ __launch_bounds__(
    depthwise_patch_sum_threads(Taps::kTaps),
    kDepthwisePatchSumBlocks<Taps, kHasBias>) void convt3d_depthwise_patch_weight_grad(const __grid_constant__
                                                                                           DepthwisePatchParams<T>
                                                                                               params) {
  constexpr int kWidth = depthwise_patch_width(kAccess, sizeof(T), Taps::kTaps, Taps::kStride, true);
  constexpr int kChannels = depthwise_patch_channels(kAccess, sizeof(T), Taps::kTaps, true);
  constexpr int kWarp = 32;
  constexpr int kSums = Taps::kTaps * Taps::kTaps * kChannels;
  const DepthwisePatchPlan& plan = params.plan;
  const Strides& from = params.source.step;
  const Strides& in = params.input.step;
  const auto channel_tile = static_cast<int32_t>(blockIdx.x % static_cast<uint32_t>(plan.channel_tiles));
  const auto split = static_cast<int32_t>(blockIdx.x / static_cast<uint32_t>(plan.channel_tiles));
  const auto warp = static_cast<int32_t>(threadIdx.x / kWarp);
  const int32_t tap_d = warp % plan.depth_taps;
  const int32_t part = warp / plan.depth_taps;
  const auto warp_lane = static_cast<int32_t>(threadIdx.x % kWarp);
  const int32_t lane = warp_lane & (plan.lanes - 1);
  const int32_t channel = channel_tile * plan.tile_channels() + lane * kChannels;
  const int32_t slots = kWarp >> plan.lane_shift;  // of a warp
  const DepthwisePatchShared<Taps::kTaps * Taps::kTaps, kChannels> shared(plan);
  shared.template clear<kHasBias>();
  const bool sums_rows = kHasBias && (plan.bias_taps >> tap_d & 1) != 0;

  int32_t item = split * plan.steps * plan.slots + part * slots + (warp_lane >> plan.lane_shift);
#pragma unroll 1
  for (int32_t step = 0; step < plan.steps; ++step, item += plan.slots) {
    DepthwiseWalk walk(plan, item);
    const int32_t from_d = walk.d * plan.depth_stride - plan.padding[0] + tap_d;
    if (item >= plan.items || channel >= plan.channels || !depthwise_inside(from_d, plan.source_size[0])) continue;
    const unsigned char* const source = params.source.data + walk.image * from.n + channel * from.c + from_d * from.d;
    const unsigned char* const input = params.input.data + walk.image * in.n + channel * in.c + walk.d * in.d;
    DepthwisePatchSums<Taps, kChannels> sum{};
    with_span<kWidth, kAccess>(plan, walk, [&](const DepthwiseWalkSpan& span, auto width) {
      walk_rows<decltype(width)::value, T, Taps, kAccess>(params, source, input, span, sums_rows, sum);
    });
    shared.add(reinterpret_cast<const float (&)[kSums]>(sum.tap));
    if (sums_rows) shared.add_rows(sum.row);
  }
  begin_dependents();  // who adds the sums waits for them
  shared.template write<kHasBias>(params, channel_tile, split);
}

}  // namespace convt3d
