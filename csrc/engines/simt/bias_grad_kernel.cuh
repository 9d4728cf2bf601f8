// Bias gradient: sum of grad_output over all but the channels, the ReLU mask applied while loading. Blocks sum splits
// of the positions; device/ordered_sum.cuh adds the splits. Both in a fixed order.
#pragma once

#include "device/ordered_sum.cuh"
#include "device/positions.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/source.cuh"
#include "engines/simt/plan.h"

namespace convt3d {

template <typename T>
struct BiasGradParams {
  Source<T> grad_output;
  PositionGrid grid;
  int64_t channels;
  int32_t channel_lanes;  // threads of a warp side by side along the channels: 32 where they are contiguous, else 1
  int64_t channel_blocks;
  int64_t positions;
  int64_t splits;
  double* partial;  // [split][channels]
};

template <typename T, bool kMasked>
__global__ void __launch_bounds__(kBiasGradThreads)
    convt3d_bias_grad(const __grid_constant__ BiasGradParams<T> params) {
  auto& shared = static_shared_memory<double[kBiasGradThreads]>();
  const int lanes = params.channel_lanes;
  const int position_lanes = kBiasGradThreads / lanes;
  const int64_t split_positions = static_cast<int64_t>(position_lanes) * kBiasGradRun;
  const int64_t blocks = params.channel_blocks * params.splits;
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t channel = block % params.channel_blocks * lanes + threadIdx.x % lanes;
    const int64_t split = block / params.channel_blocks;
    const int64_t first = split * split_positions + threadIdx.x / lanes;
    // In double: a channel's values may cancel, and memory is the limit anyway.
    double sum = 0;
    if (channel < params.channels && first < params.positions) {
      Position position = params.grid.at(first);
      int64_t left = params.positions - first;
      for (int i = 0; i < kBiasGradRun && left > 0; ++i) {
        const Source<T>& source = params.grad_output;
        const int64_t offset = position.n * source.stride.n +
                               source.stride.spatial(position.d, position.h, position.w) + channel * source.stride.c;
        bool counts = true;
        if constexpr (kMasked) {
          const int64_t mask_offset = position.n * source.mask_stride.n +
                                      source.mask_stride.spatial(position.d, position.h, position.w) +
                                      channel * source.mask_stride.c;
          counts = !(to_accumulator(__ldg(source.mask + mask_offset)) <= 0);
        }
        if (counts) sum += to_accumulator(__ldg(source.data + offset));
        params.grid.advance(position, position_lanes);
        left -= position_lanes;
      }
    }
    const double total = sum_over_threads(sum, lanes, shared);
    if (static_cast<int>(threadIdx.x) < lanes && channel < params.channels) {
      params.partial[split * params.channels + channel] = total;
    }
  }
}

}  // namespace convt3d
