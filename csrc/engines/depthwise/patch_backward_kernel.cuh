// All gradients of a depthwise layer with 27 taps by patches, from one read of grad_output. A thread walks along the
// height as for the weight's gradient, with all planes that the taps of the depth meet: what it reads is multiplied by
// the input, for the weight's gradient, and by the weight, for the input's, and is summed for the bias's.
//
//     grad_output, stride 2      the input's rows
//     plane a, b, c  row 0, 1    row 0 (as the tap 2 of the height), row 1 (taps 0 and 1)   -> row 0 is complete
//     plane a, b, c  row 2, 3    row 1 (as the tap 2 of the height), row 2 (taps 0 and 1)   -> row 1 is complete
#pragma once

#include "engines/depthwise/patch_input_grad_kernel.cuh"
#include "engines/depthwise/patch_walk.cuh"

namespace convt3d {

// Of a thread's channels: products with each tap and, for the bias, rows of grad_output.
template <int kChannels>
struct DepthwiseTogetherSums {
  static constexpr int kTaps = kDepthwiseTogetherTaps;
  float tap[kTaps][kTaps][kTaps][kChannels];
  float row[kChannels];
};

// What a walk reads and writes: from its image's channel on, at the depth of the walk; `source` at that of the first
// tap.
template <typename T>
struct DepthwiseTogetherPlaces {
  const unsigned char* source;
  const unsigned char* input;
  T* grad_input;
  const float* weights;  // staged, of the thread's channels
  uint32_t planes;       // bit k: the plane of tap k exists
};

template <int kWidth, typename T, typename Taps, DepthwisePatchAccess kAccess, int kChannels, bool kHasBias>
__device__ __forceinline__ void walk_together(const DepthwisePatchParams<T>& params,
                                              const DepthwiseTogetherPlaces<T>& places, const DepthwiseWalkSpan& span,
                                              DepthwiseTogetherSums<kChannels>& sum) {
  constexpr bool kByChannels = kAccess == DepthwisePatchAccess::kChannels;
  constexpr int kStride = Taps::kStride;
  constexpr int kTaps = Taps::kTaps;
  constexpr int kSets = Taps::kSets;
  using Row = DepthwisePatchRow<T, Taps, kAccess, kWidth, kChannels>;
  // A thread that reads no channels reads neighbours along the width as a vector.
  constexpr int kVector = kByChannels ? kChannels : kWidth;
  using Input = DepthwisePiece<T, kVector>;
  constexpr int kInputs = kWidth * kChannels / kVector;
  const DepthwisePatchPlan& plan = params.plan;
  const Strides& from = params.source.step;
  const Strides& in = params.input.step;
  const Strides& to = params.destination_stride;

  int32_t from_h = span.h * kStride - plan.padding[1];
  const int32_t from_w = span.w * kStride - plan.padding[2];
  const uint32_t columns = existing_places(from_w, plan.source_size[2]);
  const unsigned char* source = places.source + from_h * from.h + from_w * from.w;
  const unsigned char* input = places.input + span.h * in.h + span.w * in.w;
  T* grad_input = places.grad_input + span.h * to.h + span.w * to.w;

  struct Step {
    Row row[kTaps][kStride];
    Input input[kInputs];
  };
  const auto load = [&](Step& step, int32_t number) {
#pragma unroll
    for (int e = 0; e < kStride; ++e, ++from_h, source += from.h) {
      const uint32_t of_row = depthwise_inside(from_h, plan.source_size[1]) ? columns : 0;
#pragma unroll
      for (int tap_d = 0; tap_d < kTaps; ++tap_d) {
        step.row[tap_d][e].load(source + tap_d * from.d, from.w, (places.planes >> tap_d & 1) != 0 ? of_row : 0);
      }
    }
#pragma unroll
    for (int i = 0; i < kInputs; ++i) step.input[i].load_if(number < span.rows, input + i * in.w);
    input += in.h;
  };

  // Of rows of the input, the last one first: the input, and its gradient so far.
  float kept[kSets][kWidth][kChannels] = {};
  float grad[kSets][kWidth][kChannels] = {};
  // What does not exist of the input is left out and not multiplied by zero: grad_output may be infinite there.
  const auto multiply = [&](const Step& step, auto whole, int32_t number) {
#pragma unroll
    for (int tap_d = 0; tap_d < kTaps; ++tap_d) {
#pragma unroll
      for (int e = 0; e < kStride; ++e) {
#pragma unroll
        for (int i = 0; i < kSets; ++i) {
          const int tap_h = i * kStride + e;
          if (tap_h >= kTaps) continue;
          if constexpr (!decltype(whole)::value) {
            if (number < i || number - i >= span.rows) continue;
          }
          const Row& row = step.row[tap_d][e];
          const int row_number = tap_d * kTaps + tap_h;
          float weight[kTaps][kChannels];
          if constexpr (kByChannels) {
            const float* const weights = places.weights + row_number * kTaps * plan.weight_pitch();
#pragma unroll
            for (int x = 0; x < kTaps; ++x) load_floats(weights + x * plan.weight_pitch(), weight[x]);
          } else {
            float padded[Taps::kPaddedTaps];
            load_floats(places.weights + row_number * Taps::kPaddedTaps, padded);
#pragma unroll
            for (int x = 0; x < kTaps; ++x) weight[x][0] = padded[x];
          }
#pragma unroll
          for (int p = 0; p < kWidth; ++p) {
#pragma unroll
            for (int x = 0; x < kTaps; ++x) {
#pragma unroll
              for (int c = 0; c < kChannels; ++c) {
                const float value = row.value(p * kStride + x, c);
                sum.tap[tap_d][tap_h][x][c] += kept[i][p][c] * value;
                grad[i][p][c] += weight[x][c] * value;
              }
            }
          }
          if constexpr (kHasBias) {
            if (!Taps::is_in_middle(tap_h) || (plan.bias_taps >> tap_d & 1) == 0) continue;
#pragma unroll
            for (int column = Taps::kPadding; column < Taps::kPadding + kWidth * kStride; ++column) {
#pragma unroll
              for (int c = 0; c < kChannels; ++c) sum.row[c] += row.value(column, c);
            }
          }
        }
      }
    }
  };

  walk_steps<kSets, 1, Step>(span.rows, load, [&](const Step& step, auto whole, int32_t number) {
    keep_row<kVector>(step.input, kept);
#pragma unroll
    for (int i = kSets - 1; i >= 0; --i) {
#pragma unroll
      for (int p = 0; p < kWidth; ++p) {
#pragma unroll
        for (int c = 0; c < kChannels; ++c) grad[i][p][c] = i > 0 ? grad[i > 0 ? i - 1 : 0][p][c] : 0;
      }
    }
    multiply(step, whole, number);
    if (number < kSets - 1) return;
    store_patch_row(grad_input, to, plan.size[2] - span.w, plan.result_vectors, grad[kSets - 1]);
    grad_input += to.h;
  });
}

// Blocks that share a multiprocessor: as many as need no spilled register.
template <typename T, DepthwisePatchAccess kAccess>
constexpr int kDepthwiseTogetherBlocks =
    kDepthwisePatchFewBlocks && sizeof(T) == 2 && kAccess == DepthwisePatchAccess::kChannels ? 2 : 3;

template <typename T, typename Taps, DepthwisePatchAccess kAccess, bool kHasBias>
__global__ __launch_bounds__(
    kDepthwiseTogetherThreads,
    kDepthwiseTogetherBlocks<
        T, kAccess>) void convt3d_depthwise_patch_backward(const __grid_constant__ DepthwisePatchParams<T> params) {
  constexpr bool kByChannels = kAccess == DepthwisePatchAccess::kChannels;
  constexpr int kWidth = depthwise_together_width(kAccess, sizeof(T), Taps::kStride);
  constexpr int kChannels = depthwise_together_channels(kAccess, sizeof(T));
  constexpr int kTaps = Taps::kTaps;
  constexpr int kSums = kTaps * kTaps * kTaps * kChannels;
  const DepthwisePatchPlan& plan = params.plan;
  const Strides& from = params.source.step;
  const Strides& in = params.input.step;
  const Strides& to = params.destination_stride;
  const auto channel_tile = static_cast<int32_t>(blockIdx.x % static_cast<uint32_t>(plan.channel_tiles));
  const auto split = static_cast<int32_t>(blockIdx.x / static_cast<uint32_t>(plan.channel_tiles));
  const auto lane = static_cast<int32_t>(threadIdx.x & (plan.lanes - 1));
  const int32_t first_channel = channel_tile * plan.tile_channels();
  const int32_t channel = first_channel + lane * kChannels;
  float* const weights = reinterpret_cast<float*>(dynamic_shared_memory);
  stage_patch_weights<Taps, kByChannels>(params, first_channel, weights);
  const DepthwisePatchShared<kTaps * kTaps * kTaps, kChannels> shared(plan);
  shared.template clear<kHasBias>();
  __syncthreads();

  int32_t item = split * plan.steps * plan.slots + static_cast<int32_t>(threadIdx.x >> plan.lane_shift);
#pragma unroll 1
  for (int32_t step = 0; step < plan.steps; ++step, item += plan.slots) {
    DepthwiseWalk walk(plan, item);
    if (item >= plan.items || channel >= plan.channels) continue;
    const int32_t from_d = walk.d * plan.depth_stride - plan.padding[0];
    const DepthwiseTogetherPlaces<T> places{
        params.source.data + walk.image * from.n + channel * from.c + from_d * from.d,
        params.input.data + walk.image * in.n + channel * in.c + walk.d * in.d,
        params.destination + walk.image * to.n + channel * to.c + walk.d * to.d,
        weights + (kByChannels ? lane * kChannels : 0), existing_places(from_d, plan.source_size[0])};
    DepthwiseTogetherSums<kChannels> sum{};
    with_span<kWidth, kAccess>(plan, walk, [&](const DepthwiseWalkSpan& span, auto width) {
      walk_together<decltype(width)::value, T, Taps, kAccess, kChannels, kHasBias>(params, places, span, sum);
    });
    shared.add(reinterpret_cast<const float (&)[kSums]>(sum.tap));
    if constexpr (kHasBias) shared.add_rows(sum.row);
  }
  begin_dependents();  // who adds the sums waits for them
  shared.template write<kHasBias>(params, channel_tile, split);
}

}  // namespace convt3d
