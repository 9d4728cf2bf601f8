// What kernels share whose threads walk along the height, for the weight's gradient: where a walk is, and what becomes
// of the sums: those of a block's threads are added one after another, and written as the block's partial sums.
#pragma once

#include "device/overlap.cuh"
#include "engines/depthwise/patch_params.cuh"

namespace convt3d {

// Where a walk begins, and how far it goes.
struct DepthwiseWalkSpan {
  int32_t h;
  int32_t w;
  int32_t rows;
};

// A walk of all: they are numbered by (image, depth, segment of the height, unit of the width).
struct DepthwiseWalk {
  int32_t image;
  int32_t d;
  int32_t unit_w;
  DepthwiseWalkSpan span;  // but for its place along the width

  __device__ __forceinline__ DepthwiseWalk(const DepthwisePatchPlan& plan, int32_t number) : span{} {
    unit_w = plan.by_units[2].take(number);
    span.h = plan.by_units[1].take(number) * plan.segment;
    span.rows = min(plan.segment, plan.size[1] - span.h);
    d = plan.by_units[0].take(number);
    image = number;
  }
};

// Hands `function` a walk's span and its places of the width at a time: kWidth or, of channels where the last ones fill
// no patch, 1.
template <int kWidth, DepthwisePatchAccess kAccess, typename Function>
__device__ __forceinline__ void with_span(const DepthwisePatchPlan& plan, DepthwiseWalk& walk, Function&& function) {
  if (kWidth == 1 || walk.unit_w < plan.whole_patches) {
    walk.span.w = walk.unit_w * kWidth;
    function(walk.span, std::integral_constant<int, kWidth>());
  } else if constexpr (kAccess == DepthwisePatchAccess::kChannels) {
    walk.span.w = walk.unit_w + plan.whole_patches * (kWidth - 1);
    function(walk.span, std::integral_constant<int, 1>());
  }
}

// The next row of the input takes its place before those that are kept, of which the last one goes.
template <int kVector, typename Input, int kInputs, int kSets, int kWidth, int kChannels>
__device__ __forceinline__ void keep_row(const Input (&input)[kInputs], float (&kept)[kSets][kWidth][kChannels]) {
#pragma unroll
  for (int i = kSets - 1; i >= 0; --i) {
#pragma unroll
    for (int p = 0; p < kWidth; ++p) {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        const int neighbour = p * kChannels + c;
        kept[i][p][c] = i > 0 ? kept[i > 0 ? i - 1 : 0][p][c] : input[neighbour / kVector].value(neighbour % kVector);
      }
    }
  }
}

// The steps of a walk along so many rows, of which kSets are kept; the next one is on its way. `take` is told of those
// at both ends, of whose rows some do not exist.
template <int kSets, int kUnrolled, typename Step, typename Load, typename Take>
__device__ __forceinline__ void walk_steps(int32_t rows, Load&& load, Take&& take) {
  Step next;
  load(next, 0);
  int32_t number = 0;
  const auto advance = [&](int32_t end, auto whole) {
#pragma unroll(decltype(whole)::value ? kUnrolled : 1)
    for (; number < end; ++number) {
      const Step step = next;
      load(next, number + 1);
      take(step, whole, number);
    }
  };
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    advance(pass == 0 ? kSets - 1 : rows + kSets - 1, std::false_type());
    if (pass == 0) advance(rows, std::true_type());
  }
}

// A thread's sums of all its walks are its own: [warp][tap][channel][thread], behind these of all warps those of rows,
// where the bias's gradient is wanted: [warp][channel][thread].
template <int kTaps, int kChannels>
class DepthwisePatchShared {
  static constexpr int kWarp = 32;
  static constexpr int kSums = kTaps * kChannels;

 public:
  __device__ __forceinline__ explicit DepthwisePatchShared(const DepthwisePatchPlan& plan)
      : plan_(plan), sums_(reinterpret_cast<float*>(dynamic_shared_memory) + plan.sums_offset) {}

  template <bool kHasBias>
  __device__ __forceinline__ void clear() const {
#pragma unroll
    for (int i = 0; i < kSums; ++i) own(i) = 0;
    if constexpr (kHasBias) {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) own_rows(c) = 0;
    }
  }
  __device__ __forceinline__ void add(const float (&sum)[kSums]) const {
#pragma unroll
    for (int i = 0; i < kSums; ++i) own(i) += sum[i];
  }
  __device__ __forceinline__ void add_rows(const float (&row)[kChannels]) const {
#pragma unroll
    for (int c = 0; c < kChannels; ++c) own_rows(c) += row[c];
  }

  // Adds what the block's threads have and writes it as the block's partial sums.
  template <bool kHasBias, typename T>
  __device__ __forceinline__ void write(const DepthwisePatchParams<T>& params, int32_t channel_tile,
                                        int32_t split) const {
    __syncthreads();
    const int32_t tile_channels = plan_.tile_channels();
    const int32_t taps = plan_.depth_taps / plan_.warp_planes * kTaps;
    float* const partial =
        params.partial + (static_cast<int64_t>(split) * plan_.channel_tiles + channel_tile) * tile_channels * taps;
#pragma unroll 1
    for (int32_t result = static_cast<int32_t>(threadIdx.x); result < taps * tile_channels; result += plan_.threads) {
      const int32_t tap = result / tile_channels;
      const int32_t c = result - tap * tile_channels;
      const float* const first = sums_ + (tap * kChannels + c % kChannels) * kWarp + c / kChannels;
      partial[c * taps + tap] = sum_over(first, plan_.parts, taps * kChannels * kWarp);
    }
    if constexpr (kHasBias) {
      const float* const rows = sums_ + plan_.warps() * kSums * kWarp;
      const int32_t left = min(tile_channels, plan_.channels - channel_tile * tile_channels);
#pragma unroll 1
      for (int32_t c = static_cast<int32_t>(threadIdx.x); c < left; c += plan_.threads) {
        const float* const first = rows + (c % kChannels) * kWarp + c / kChannels;
        params.bias_partial[static_cast<int64_t>(split) * plan_.channels + channel_tile * tile_channels + c] =
            sum_over(first, plan_.warps(), kChannels * kWarp);
      }
    }
  }

 private:
  __device__ __forceinline__ static int32_t warp() { return static_cast<int32_t>(threadIdx.x / kWarp); }
  __device__ __forceinline__ static int32_t warp_lane() { return static_cast<int32_t>(threadIdx.x % kWarp); }
  __device__ __forceinline__ float& own(int i) const { return sums_[(warp() * kSums + i) * kWarp + warp_lane()]; }
  __device__ __forceinline__ float& own_rows(int c) const {
    return sums_[(plan_.warps() * kSums + warp() * kChannels + c) * kWarp + warp_lane()];
  }

  // The threads that share a sum, one after the other: of so many warps, each so many floats behind the one before.
  __device__ __forceinline__ float sum_over(const float* first, int32_t warps, int32_t step) const {
    float total = 0;
    for (int32_t i = 0; i < warps; ++i) {
      for (int32_t other = 0; other < kWarp; other += plan_.lanes) total += first[i * step + other];
    }
    return total;
  }

  const DepthwisePatchPlan& plan_;
  float* sums_;
};

}  // namespace convt3d
