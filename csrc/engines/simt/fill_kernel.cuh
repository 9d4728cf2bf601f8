// Outputs that no tap reaches are the bias alone. A dense output is filled whole, in memory order; the phases that have
// taps then write over their part.
#pragma once

#include <cstdint>

#include "epilogue/apply.cuh"

namespace convt3d {

template <typename T>
struct FillParams {
  T* output;  // dense
  int64_t elements;
  int64_t channel_stride;
  int64_t channels;
  Epilogue epilogue;
};

template <typename T>
__global__ void convt3d_fill(const __grid_constant__ FillParams<T> params) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; index < params.elements;
       index += step) {
    const int64_t channel = index / params.channel_stride % params.channels;
    Accumulator<T> value = bias_of<T>(params.epilogue, channel);
    activate(params.epilogue, &value, 1);
    params.output[index] = from_accumulator<T>(value);
  }
}

}  // namespace convt3d
