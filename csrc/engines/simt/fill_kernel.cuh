// Outputs that no tap reaches are the bias alone. A dense output is filled whole, in memory order; the phases that have
// taps then write over their part.
#pragma once

#include <cstdint>

#include "device/numeric.cuh"

namespace convt3d {

template <typename T>
struct FillParams {
  T* output;  // dense
  int64_t elements;
  int64_t channel_stride;
  int64_t channels;
  const T* bias;  // nullptr where absent
  int64_t bias_stride;
  bool relu;
};

template <typename T>
__global__ void convt3d_fill(const __grid_constant__ FillParams<T> params) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; index < params.elements;
       index += step) {
    Accumulator<T> value = 0;
    if (params.bias != nullptr) {
      value = to_accumulator(__ldg(params.bias + index / params.channel_stride % params.channels * params.bias_stride));
      if (params.relu && value < 0) value = 0;
    }
    params.output[index] = from_accumulator<T>(value);
  }
}

}  // namespace convt3d
