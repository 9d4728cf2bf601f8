// The last step of a weight gradient: sums of the splits, added in order.
#pragma once

#include "device/numeric.cuh"
#include "device/source.cuh"

namespace convt3d::mma {

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
__global__ void convt3d_mma_weight_grad_sum(const __grid_constant__ GradSumParams<T> params) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; index < params.elements;
       index += step) {
    double sum = 0;
#pragma unroll 8
    for (int64_t slot = 0; slot < params.slots; ++slot) sum += params.partial[slot * params.elements + index];
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
}

}  // namespace convt3d::mma
