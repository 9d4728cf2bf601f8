// The last step of a weight gradient: sums of the splits, added in order.
#pragma once

#include "device/numeric.cuh"
#include "device/overlap.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/source.cuh"

namespace convt3d::mma {

constexpr int kSumElements = 32;  // of a block, side by side
constexpr int kSumRuns = 8;       // threads that share an element's slots

template <typename T>
struct GradSumParams {
  const float* partial;  // [slot][group][tap][output channel][input channel]
  int64_t slots;
  int64_t elements;  // of a slot
  int32_t row_channels;
  int32_t n_channels;
  int32_t kernel[3];
  T* grad_weight;
  Strides stride;  // n: input channel, c: output channel of the group, d h w: tap
};

template <typename T>
__global__ void __launch_bounds__(kSumElements* kSumRuns)
    convt3d_mma_weight_grad_sum(const __grid_constant__ GradSumParams<T> params) {
  auto& sums = static_shared_memory<double[kSumRuns][kSumElements]>();
  const auto lane = static_cast<int>(threadIdx.x) % kSumElements;
  const auto run = static_cast<int>(threadIdx.x) / kSumElements;
  wait_for_kernel_before();
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kSumElements; first < params.elements;
       first += static_cast<int64_t>(gridDim.x) * kSumElements) {
    const int64_t index = first + lane;
    double sum = 0;
    if (index < params.elements) {
#pragma unroll 4
      for (int64_t slot = run; slot < params.slots; slot += kSumRuns) {
        sum += params.partial[slot * params.elements + index];
      }
    }
    sums[run][lane] = sum;
    __syncthreads();
    if (run == 0 && index < params.elements) {
#pragma unroll
      for (int i = 1; i < kSumRuns; ++i) sum += sums[i][lane];
      int64_t rest = index;
      const auto take = [&](int32_t count) {
        const int64_t value = rest % count;
        rest /= count;
        return value;
      };
      const int64_t n = take(params.n_channels);
      const int64_t row = take(params.row_channels);
      const int64_t w = take(params.kernel[2]);
      const int64_t h = take(params.kernel[1]);
      const int64_t d = take(params.kernel[0]);
      params.grad_weight[(rest * params.n_channels + n) * params.stride.n + row * params.stride.c +
                         params.stride.spatial(d, h, w)] = from_accumulator<T>(sum);
    }
    __syncthreads();
  }
}

}  // namespace convt3d::mma
