// Weight [C_in, C_out/groups, kD, kH, kW] -> [group][tap][k_padded][n_padded], the order in which the mainloop reads B,
// zero beyond the channels so that its loads need no test.
#pragma once

#include <cstdint>

#include "core/weight_order.h"
#include "device/numeric.cuh"

namespace convt3d {

template <typename T>
struct PackWeightParams {
  const T* weight;
  WeightStrides stride;
  int32_t kernel[3];
  int32_t k_channels;
  int32_t n_channels;
  int32_t k_padded;
  int32_t n_padded;
  int64_t elements;
  T* packed;
};

template <typename T>
__global__ void convt3d_pack_weight(const __grid_constant__ PackWeightParams<T> params) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; index < params.elements;
       index += step) {
    const int64_t n = index % params.n_padded;
    int64_t rest = index / params.n_padded;
    const int64_t k = rest % params.k_padded;
    rest /= params.k_padded;
    const int64_t w = rest % params.kernel[2];
    rest /= params.kernel[2];
    const int64_t h = rest % params.kernel[1];
    rest /= params.kernel[1];
    const int64_t d = rest % params.kernel[0];
    const int64_t group = rest / params.kernel[0];
    T value = from_accumulator<T>(Accumulator<T>(0));
    if (k < params.k_channels && n < params.n_channels) {
      value = params.weight[group * params.stride.group + k * params.stride.k + n * params.stride.n +
                            d * params.stride.tap[0] + h * params.stride.tap[1] + w * params.stride.tap[2]];
    }
    params.packed[index] = value;
  }
}

}  // namespace convt3d
