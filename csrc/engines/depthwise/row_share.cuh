// What the kernels whose threads lie along the width begin with: a block computes one output channel of an image.
#pragma once

#include "engines/depthwise/params.cuh"

namespace convt3d {

// A thread's share of rows.
struct DepthwiseRowShare : DepthwiseShare {
  int32_t channel;
  int64_t in_channel;  // the first of its group
  int64_t image;

  __device__ __forceinline__ explicit DepthwiseRowShare(const DepthwisePlan& plan) : DepthwiseShare(plan) {
    const int32_t channels = plan.groups * plan.out_channels;
    channel = volume % channels;
    in_channel = int64_t{channel / plan.out_channels} * plan.in_channels;
    image = volume / channels;
  }
};

// Weights of one output channel, [input channel][depth][height][padded width], by all threads of a block, which wait
// for each other.
template <typename T>
__device__ __forceinline__ void stage_row_weights(const DepthwiseParams<T>& params, int32_t channel, uint32_t padded,
                                                  Accumulator<T>* weights) {
  const DepthwisePlan& plan = params.plan;
  const Strides& stride = params.weight_stride;
  const int32_t group = channel / plan.out_channels;
  const T* const first =
      params.weight + int64_t{group} * plan.in_channels * stride.n + channel % plan.out_channels * stride.c;
  const uint32_t depth = plan.axis[0].taps;
  const uint32_t height = plan.axis[1].taps;
  const uint32_t width = plan.axis[2].taps;
  const uint32_t count = plan.in_channels * depth * height * width;
#pragma unroll 1
  for (uint32_t index = threadIdx.x; index < count; index += kDepthwiseThreads) {
    const uint32_t row = index / width;
    const uint32_t plane = row / height;
    const uint32_t in_channel = plane / depth;
    const T* const place = first + in_channel * stride.n + stride.spatial(plane % depth, row % height, index % width);
    weights[row * padded + index % width] = to_accumulator(__ldg(place));
  }
  __syncthreads();
}

}  // namespace convt3d
