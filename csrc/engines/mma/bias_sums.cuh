// The gradient of the bias beside the others': sums of grad_output over positions and taps, from what warps read of it
// anyway.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "device/ptx/thread_barrier.cuh"
#include "engines/mma/backward_params.cuh"
#include "engines/mma/weight_grad_kernel.cuh"

namespace convt3d::mma {

// The block's tile, of which nothing is kept while its warps multiply.
template <typename T>
__device__ __forceinline__ GradTile tile_here(const WeightGradParams<T>& params) {
  return {params, static_cast<uint32_t>(hopper::computed_here(static_cast<int>(blockIdx.x)))};
}

// Where a block leaves its split's and group's.
template <typename T>
__device__ __forceinline__ float* bias_of_block(const BackwardParams<T>& params) {
  const GradTile tile = tile_here(params.grad);
  return params.bias + (tile.split * params.grad.groups + tile.group) * params.grad.row_channels;
}

// Of 16 bits: sums of the weight gradient's rows (tap, output channel), which its warps have the tensor cores sum as
// products with ones, sixteen positions at a time, and add in float32 (GradProduct). In shared memory, float32: [warp
// along the positions][eight][row].
template <typename T>
class RowBiasSums {
 public:
  static constexpr bool kExist = sizeof(ElementOf<T>) == 2;

  __device__ __forceinline__ RowBiasSums(const BackwardParams<T>& params, unsigned char* shared)
      : params_(params), shared_(shared) {}

  __device__ __forceinline__ bool wanted() const { return kExist && params_.bias != nullptr; }

  __device__ __forceinline__ void clear(const Fillers& fillers) const {
    const int32_t count = params_.grad.warps_k * eights() * 8;
    for (int32_t i = fillers.thread; i < count; i += fillers.count) sums()[i] = 0;
  }

  // Of a warp, whose own they are.
  template <typename Product>
  __device__ __forceinline__ void add(const GradShare& share, const Product& product) const {
    const auto lane = static_cast<int32_t>(threadIdx.x % 32);
    if (lane % 4 != 0) return;
    float* const to = sums() + (share.k * eights() + 2 * share.first) * 8 + lane / 4;
#pragma unroll
    for (int m = 0; m < Product::kFragments; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (2 * m + half < share.eights) to[(2 * m + half) * 8] += product.row_sum[m][half];
      }
    }
  }

  // By the warps of the weight gradient, when all have added theirs.
  __device__ __forceinline__ void store() const {
    sync_threads(kGradMultipliers, 32 * kGradWarps);
    const WeightGradParams<T>& grad = params_.grad;
    const auto* const eight = reinterpret_cast<const GradEight*>(shared_ + grad.layout.eights);
    const int32_t count = eights();
    float* const to = bias_of_block(params_);
    for (auto channel = static_cast<int32_t>(threadIdx.x); channel < grad.row_channels; channel += 32 * kGradWarps) {
      const int32_t row = channel % 8;
      double sum = 0;
      for (int32_t i = 0; i < count; ++i) {
        // Of the taps' eights those that have the channel.
        if (row >= eight[i].channels || eight[i].row % grad.row_channels != channel - row) continue;
        for (int32_t k = 0; k < grad.warps_k; ++k) sum += sums()[(k * count + i) * 8 + row];
      }
      to[channel] = static_cast<float>(sum);
    }
  }

 private:
  __device__ __forceinline__ int32_t eights() const { return tile_here(params_.grad).eights(params_.grad); }
  __device__ __forceinline__ float* sums() const { return reinterpret_cast<float*>(shared_ + params_.layout.bias); }

  const BackwardParams<T>& params_;
  unsigned char* shared_;
};

// Of float32, whose bits the tensor cores would cut: one lane's of one step of channels, from the words that the input
// gradient's warps read.
struct LaneBias {
  float sum[2];

  __device__ __forceinline__ void clear() { sum[0] = sum[1] = 0; }
  // A fragment's words: two rows of the step's first half, then of its second. `exist`: bit i, row i.
  __device__ __forceinline__ void add(const uint32_t (&words)[4], uint32_t exist) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        sum[half] += (exist >> row & 1) != 0 ? __uint_as_float(words[2 * half + row]) : 0;
      }
    }
  }
};

// In shared memory: [warp along the positions][step of channels][lane].
template <typename T>
class LaneBiasSums {
 public:
  static constexpr bool kExist = sizeof(ElementOf<T>) == 4;

  __device__ __forceinline__ LaneBiasSums(const BackwardParams<T>& params, unsigned char* shared)
      : params_(params), sums_(reinterpret_cast<LaneBias*>(shared + params.layout.bias)) {}

  __device__ __forceinline__ bool wanted() const { return kExist && params_.bias != nullptr; }

  __device__ __forceinline__ void clear(int32_t warps_m, const Fillers& fillers) const {
    const int32_t count = warps_m * params_.channel_steps * 32;
    for (int32_t i = fillers.thread; i < count; i += fillers.count) sums_[i].clear();
  }

  __device__ __forceinline__ void add(int32_t warp, int32_t step, int32_t lane, const LaneBias& more) const {
    LaneBias& of_lane = sums_[(warp * params_.channel_steps + step) * 32 + lane];
#pragma unroll
    for (int i = 0; i < 2; ++i) of_lane.sum[i] += more.sum[i];
  }

  // By `threads` threads, when all sums are there.
  __device__ __forceinline__ void store(int32_t warps_m, int32_t thread, int32_t threads) const {
    constexpr int kInStep = kStepBytes / static_cast<int>(sizeof(float));
    float* const to = bias_of_block(params_);
    for (int32_t channel = thread; channel < params_.grad.row_channels; channel += threads) {
      const int32_t in_step = channel % kInStep;
      double sum = 0;
      for (int32_t warp = 0; warp < warps_m; ++warp) {
        const LaneBias* const lanes = sums_ + (warp * params_.channel_steps + channel / kInStep) * 32;
        for (int32_t row = 0; row < 8; ++row) sum += lanes[4 * row + in_step % 4].sum[in_step / 4];
      }
      to[channel] = static_cast<float>(sum);
    }
  }

 private:
  const BackwardParams<T>& params_;
  LaneBias* sums_;
};

}  // namespace convt3d::mma
