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
  // Depth and height: bytes of the source from one tap of a residue to the next, offset_step * source_step. The product
  // would take registers where the channels' kernels have none left.
  int64_t tap_step[2];
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

  // Past its last item.
  __device__ __forceinline__ int32_t items_end(const DepthwisePlan& plan) const {
    return min(plan.items, item + plan.steps * plan.slots);
  }
};

// An output position along an axis, u * stride + residue, and the taps of that residue.
struct DepthwiseOutput {
  int32_t u;
  int32_t residue;
  DepthwiseResidue taps;

  __device__ __forceinline__ DepthwiseOutput(const DepthwiseAxis& axis, int32_t position)
      : u(axis.by_stride.quotient(position)),
        residue(axis.by_stride.remainder(position, u)),
        taps(axis.residue[residue]) {}
};

// Calls `function` with every two residues (of depth and height) that read offsets `at_d` and `at_h`, and with the row
// of weights that they read them with. What a caller unrolls, the compiler knows.
template <typename Taps, typename Function>
__device__ __forceinline__ void for_each_residue_pair(int at_d, int at_h, Function&& function) {
  static_assert(Taps::kStride == 2, "pairs of residues");
#pragma unroll
  for (int d = 0; d < 2; ++d) {
    const int tap_d = Taps::tap(d, at_d);
    if (tap_d < 0) continue;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int tap_h = Taps::tap(h, at_h);
      if (tap_h < 0) continue;
      function(d, h, tap_d * Taps::kTaps + tap_h);
    }
  }
}

}  // namespace convt3d
