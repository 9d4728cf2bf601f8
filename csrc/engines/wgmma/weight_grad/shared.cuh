// A block's shared memory, and its way through the boxes.
#pragma once

#include "device/hopper.cuh"
#include "engines/wgmma/weight_grad/params.h"

namespace convt3d {

constexpr int kWgmmaGradWarps = 8;  // that multiply

struct WgmmaGradBarriers {
  uint64_t full[kWgmmaGradMostStages];
  uint64_t empty[kWgmmaGradMostStages];
};
struct WgmmaGradShared {
  WgmmaGradBarriers* barriers;
  uint32_t* steps;        // of K: where the first eight rows begin in the tile of grad_output, how far the others are
  unsigned char* ones;    // an operand of 16 positions and 8 columns
  unsigned char* stages;  // the input's tile, then that of grad_output

  __device__ __forceinline__ WgmmaGradShared() {
    unsigned char* const memory = dynamic_shared_memory_of_boxes();
    barriers = reinterpret_cast<WgmmaGradBarriers*>(memory);
    steps = reinterpret_cast<uint32_t*>(memory + kWgmmaGradBarrierBytes / 4);
    ones = memory + kWgmmaGradBarrierBytes / 2;
    stages = memory + kWgmmaGradBarrierBytes;
  }
};
constexpr int kWgmmaGradOnesBytes = 256;
constexpr int kWgmmaGradGroupSteps = 4;  // whose products are issued together, and whose entries are read together
static_assert(sizeof(WgmmaGradBarriers) <= kWgmmaGradBarrierBytes / 4);
static_assert((kWgmmaGradMostSteps + kWgmmaGradGroupSteps) * sizeof(uint32_t) <= kWgmmaGradBarrierBytes / 4);
static_assert(kWgmmaGradOnesBytes <= kWgmmaGradBarrierBytes / 2);

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

}  // namespace convt3d
