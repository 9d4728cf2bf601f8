// A block's shared memory, and its way through the boxes.
#pragma once

#include "device/hopper.cuh"
#include "device/ptx/thread_barrier.cuh"
#include "engines/wgmma/weight_grad/params.h"

namespace convt3d {

constexpr int kWgmmaGradWarps = 8;  // that multiply

struct WgmmaGradBarriers {
  uint64_t full[kWgmmaGradMostStages];
  uint64_t turned[kWgmmaGradMostStages];  // of 32-bit elements
  uint64_t empty[kWgmmaGradMostStages];
};
struct WgmmaGradShared {
  WgmmaGradBarriers* barriers;
  uint32_t* steps;      // of K: where the first eight rows begin in the tile of grad_output, how far the others are
  unsigned char* ones;  // an operand of 16 positions and 8 columns
  uint32_t* rows;       // of 32-bit elements, instead of both: of grad_output's tile, for a step and two of K's columns
  unsigned char* stages;  // the input's tile, then that of grad_output

  __device__ __forceinline__ WgmmaGradShared() {
    unsigned char* const memory = dynamic_shared_memory_of_boxes();
    barriers = reinterpret_cast<WgmmaGradBarriers*>(memory);
    steps = reinterpret_cast<uint32_t*>(memory + kWgmmaGradBarrierBytes / 4);
    ones = memory + kWgmmaGradBarrierBytes / 2;
    rows = steps;
    stages = memory + kWgmmaGradBarrierBytes;
  }
};
constexpr int kWgmmaGradOnesBytes = 256;
constexpr int kWgmmaGradGroupSteps = 4;  // whose products are issued together, and whose entries are read together
static_assert(sizeof(WgmmaGradBarriers) <= kWgmmaGradBarrierBytes / 4);
static_assert((kWgmmaGradMostSteps + kWgmmaGradGroupSteps) * sizeof(uint32_t) <= kWgmmaGradBarrierBytes / 4);
static_assert(kWgmmaGradOnesBytes <= kWgmmaGradBarrierBytes / 2);
constexpr int kWgmmaTurnedStepsAhead = 2;  // that the table has past the last step
static_assert((kWgmmaGradMostSteps + kWgmmaTurnedStepsAhead) * kWgmmaTurnedStep / 2 * sizeof(uint32_t) <=
              kWgmmaGradBarrierBytes / 4 * 3);

// The named barrier where a block's warps meet once barriers have begun and tables are filled.
constexpr int kWgmmaGradBegun = 1;

// By the warp that has boxes copied. It waits for nobody: boxes are on their way while others fill tables. `turners`:
// warps that turn, of elements that are turned.
__device__ __forceinline__ void begin_grad_barriers(const WgmmaGradShared& shared, int turners) {
  if (threadIdx.x % 32 == 0) {
#pragma unroll 1
    for (int i = 0; i < kWgmmaGradMostStages; ++i) {
      hopper::barrier_init(&shared.barriers->full[i], 1);
      if (turners > 0) hopper::barrier_init(&shared.barriers->turned[i], turners);
      hopper::barrier_init(&shared.barriers->empty[i], kWgmmaGradWarps);
    }
    hopper::barrier_init_fence();
  }
  __syncwarp();
  arrive_threads(kWgmmaGradBegun, kWgmmaGradThreads);
}

// A block's boxes, and its way through the stages.
struct WgmmaGradBoxes {
  int32_t box;
  int32_t end;
  int32_t stages;
  int32_t stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ WgmmaGradBoxes(const WgmmaWeightGradPlan& plan, int32_t split) : stages(plan.stages) {
    const auto boxes = static_cast<int32_t>(plan.split_boxes);
    box = split * boxes;
    end = min(box + boxes, static_cast<int32_t>(plan.box_count()));
  }
  __device__ __forceinline__ bool ended() const { return box >= end; }
  __device__ __forceinline__ void advance() {
    ++box;
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }
};

// `multiply` has each box of a block's share; `store` what a segment of them sums up to, added to what is there or not.
// `store` also clears the sums, but for the last one's.
template <typename Multiply, typename Store>
__device__ __forceinline__ void sum_grad_boxes(const WgmmaWeightGradPlan& plan, int32_t split, bool joins,
                                               Multiply&& multiply, Store&& store) {
  int32_t summed = 0;
  for (WgmmaGradBoxes boxes(plan, split); !boxes.ended();) {
    multiply(boxes);
    boxes.advance();
    if (++summed < plan.segment_boxes && !boxes.ended()) continue;
    store(joins, boxes.ended());
    joins = true;
    summed = 0;
  }
}

// Of a warpgroup's product with kColumns columns: what this thread has of it, to rows of `pitch` elements, of which it
// has `to` and, `second` of them, the eighth after. `columns`: how many there are from `to` on.
template <int kColumns>
__device__ __forceinline__ void store_grad_sums(const float* sums, float* to, int32_t pitch, int32_t columns,
                                                bool first, bool second, bool joins) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (!(half == 0 ? first : second)) continue;
    float* const line = to + int64_t{8 * half} * pitch;
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      if (8 * i >= columns) continue;
      auto* const pair = reinterpret_cast<float2*>(line + 8 * i);
      float2 sum{sums[4 * i + 2 * half], sums[4 * i + 2 * half + 1]};
      if (joins) {
        const float2 before = *pair;
        sum.x += before.x;
        sum.y += before.y;
      }
      *pair = sum;
    }
  }
}

}  // namespace convt3d
