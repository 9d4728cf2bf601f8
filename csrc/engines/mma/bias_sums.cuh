// Sums of grad_output over positions and taps, from what warps read of it to multiply it: a lane has neighbouring
// channels of a step of K, of the positions of its rows. Bits of grad_output as they are, in float32.
#pragma once

#include "device/numeric.cuh"
#include "device/ptx/shared_memory.cuh"
#include "engines/mma/backward_params.cuh"

namespace convt3d::mma {

// Of one lane and one step of channels.
template <typename T>
struct LaneBias {
  static constexpr int kInWord = 4 / static_cast<int>(sizeof(T));  // channels
  static constexpr int kSums = 2 * kInWord;
  float sum[kSums];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (float& value : sum) value = 0;
  }
  // A fragment's words: two rows of the step's first half, then of its second. `exist`: bit i, row i.
  __device__ __forceinline__ void add(const uint32_t (&words)[4], uint32_t exist) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        constexpr int kElements = 4 / static_cast<int>(sizeof(ElementOf<T>));
        alignas(4) ElementOf<T> values[kElements];
        *reinterpret_cast<uint32_t*>(values) = (exist >> row & 1) != 0 ? words[2 * half + row] : 0;
#pragma unroll
        for (int i = 0; i < kElements; ++i) sum[half * kInWord + i % kInWord] += to_accumulator(values[i]);
      }
    }
  }
};

// In shared memory: [warp along the positions][step of channels][lane]. Of width pairs, a lane has the channels that
// WarpProduct reads of channel rows.
template <typename T>
class BiasSums {
 public:
  __device__ __forceinline__ BiasSums(const BackwardParams<T>& params, unsigned char* shared)
      : params_(params), sums_(reinterpret_cast<LaneBias<T>*>(shared + params.layout.bias)) {}

  // All threads of the block.
  __device__ __forceinline__ void clear(int32_t warps_m) const {
    const int32_t count = warps_m * params_.channel_steps * 32;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += static_cast<int32_t>(blockDim.x))
      sums_[i].clear();
  }

  __device__ __forceinline__ void add(int32_t warp, int32_t step, int32_t lane, const LaneBias<T>& more) const {
    LaneBias<T>& of_lane = sums_[(warp * params_.channel_steps + step) * 32 + lane];
#pragma unroll
    for (int i = 0; i < LaneBias<T>::kSums; ++i) of_lane.sum[i] += more.sum[i];
  }

  // By `threads` threads, when all sums are there: of the block's split and group.
  __device__ __forceinline__ void store(const GradTile& tile, int32_t warps_m, int32_t thread, int32_t threads) const {
    constexpr int kInWord = LaneBias<T>::kInWord;
    constexpr int kInStep = kStepBytes / static_cast<int>(sizeof(T));
    const WeightGradParams<T>& grad = params_.grad;
    float* const to = params_.bias + (tile.split * grad.groups + tile.group) * grad.row_channels;
    for (int32_t channel = thread; channel < grad.row_channels; channel += threads) {
      const int32_t in_step = channel % kInStep;
      const int32_t half = kIsPaired<T> ? in_step % 2 : in_step / (4 * kInWord);
      const int32_t column = kIsPaired<T> ? in_step / 2 : in_step % (4 * kInWord) / kInWord;
      double sum = 0;
      for (int32_t warp = 0; warp < warps_m; ++warp) {
        const LaneBias<T>* const lanes = sums_ + (warp * params_.channel_steps + channel / kInStep) * 32;
        for (int32_t row = 0; row < 8; ++row) sum += lanes[4 * row + column].sum[half * kInWord + in_step % kInWord];
      }
      to[channel] = static_cast<float>(sum);
    }
  }

 private:
  const BackwardParams<T>& params_;
  LaneBias<T>* sums_;
};

}  // namespace convt3d::mma
