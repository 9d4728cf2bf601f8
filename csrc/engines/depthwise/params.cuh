// What the depthwise kernels receive and share.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "device/source.cuh"
#include "engines/depthwise/plan.h"
#include "epilogue/apply.cuh"

namespace convt3d {

template <typename T>
struct DepthwiseParams {
  DepthwisePlan plan;
  Source<T> source;
  const T* weight;
  Strides weight_stride;  // n, c: input and output channel
  T* destination;
  Strides destination_stride;
  int64_t source_step[3];  // bytes from a position to the next, along each axis
  int64_t destination_step[3];
  int64_t tap_step[2];       // bytes of the source from one tap of a residue to the next, along depth and height
  bool source_vectors;       // rows: a thread's positions along the width are aligned and whole; channels: quads are
  bool destination_vectors;  // likewise a thread's outputs along the width, or the quads
  Epilogue epilogue;
};

// By bytes that lie ready among the parameters, not in registers.
template <typename T>
__device__ __forceinline__ void advance_bytes(const T*& pointer, int64_t bytes) {
  pointer = reinterpret_cast<const T*>(reinterpret_cast<const unsigned char*>(pointer) + bytes);
}
template <typename T>
__device__ __forceinline__ void advance_bytes(T*& pointer, int64_t bytes) {
  pointer = reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(pointer) + bytes);
}

__device__ __forceinline__ bool depthwise_inside(int32_t position, int32_t size) {
  return static_cast<uint32_t>(position) < static_cast<uint32_t>(size);
}

// A thread's share of the volumes, the lanes and the items.
struct DepthwiseShare {
  int32_t lane_tile;
  int32_t lane;    // over all lane tiles
  int32_t item;    // its first; the next ones are `slots` apart
  int32_t volume;  // image, or (image, output channel)

  __device__ __forceinline__ explicit DepthwiseShare(const DepthwisePlan& plan) {
    uint32_t block = blockIdx.x;
    lane_tile = static_cast<int32_t>(block % static_cast<uint32_t>(plan.lane_tiles));
    block /= static_cast<uint32_t>(plan.lane_tiles);
    const uint32_t tile = block % static_cast<uint32_t>(plan.item_tiles);
    volume = static_cast<int32_t>(block / static_cast<uint32_t>(plan.item_tiles));
    lane = static_cast<int32_t>(threadIdx.x & (plan.lanes - 1)) + lane_tile * plan.lanes;
    item = static_cast<int32_t>(threadIdx.x / static_cast<uint32_t>(plan.lanes) + tile * plan.steps * plan.slots);
  }
};

// Weights of one output channel, [input channel][depth][height][padded width].
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
}

}  // namespace convt3d
