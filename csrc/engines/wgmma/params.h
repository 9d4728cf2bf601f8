// What the wgmma engine's kernels receive, and how a block finds its work.
#pragma once

#include <cuda.h>

#include "device/ptx/shared_memory.cuh"
#include "device/source.cuh"
#include "engines/wgmma/plan/outputs.h"
#include "engines/wgmma/plan/plan.h"
#include "epilogue/epilogue.h"

namespace convt3d {

// A block's dynamic shared memory, divided as WgmmaMemory says.
__device__ __forceinline__ unsigned char* wgmma_memory() { return dynamic_shared_memory_of_boxes(); }
// 128 bytes of the block's shared memory that nobody reads.
__device__ __forceinline__ unsigned char* wgmma_spare() { return wgmma_memory() + kWgmmaBarrierBytes - 128; }

// An entry of the tables of boxes of planes: a word of an image's channel, and its (first) position in the tile.
CONVT3D_HOST_DEVICE inline uint32_t wgmma_source(int word, int position) {
  return static_cast<uint32_t>(word | position << 16);
}

template <typename T>
struct WgmmaParams {
  CUtensorMap boxes;                 // of the input
  CUtensorMap out[kWgmmaMaxPhases];  // of the output, for each residue outside the staging
  WgmmaPlan plan;
  Source<T> source;
  const unsigned char* weight;  // packed, see pack_weight.cuh
  uint32_t* counters;           // of work tiles, see scheduler.cuh
  T* destination;
  Strides destination_stride;
  Epilogue epilogue;
  WgmmaOutputs outputs;  // where the epilogue gathers moments
};

// One block's share of a tile. Splits and groups count fastest: blocks at work at the same time share lines of memory.
struct WgmmaWorkTile {
  int split;
  int first[3];  // position of the tile along each axis
  int image;
  int group;

  __device__ __forceinline__ WgmmaWorkTile(const WgmmaPlan& plan, uint32_t index) {
    int32_t rest = static_cast<int32_t>(index);
    split = plan.tile.by_splits.take(rest);
    group = plan.product.by_groups.take(rest);
#pragma unroll
    for (int i = 2; i >= 0; --i) first[i] = plan.tile.by_count[i].take(rest) * plan.tile.size[i];
    image = rest << plan.tile.image_log;
  }
};

// The K steps of a phase's loop that a work tile needs, where some may be left out.
__device__ __forceinline__ WgmmaSteps read_steps(const WgmmaPlan& plan, const WgmmaWorkTile& work, int phase_index,
                                                 int set) {
  const auto& axis = plan.arrangement.axis;
  const WgmmaPhase phase = plan.arrangement.phase(phase_index, set);
  const WgmmaTaps& taps = axis[0].taps[phase.depth];
  const WgmmaUnreadOffsets unread(axis[0], taps, work.first[0], plan.tile.size[0]);
  const int depth_steps = axis[1].taps[phase.height].count * axis[2].taps[phase.width].count * plan.loops.tap_steps;
  return steps_between(plan.loops.steps[phase_index * plan.loops.sets + set], depth_steps, unread.front, unread.back);
}

// The packed weight of a work tile's passes, in stages.
struct WgmmaWeightStream {
  int64_t first;
  int32_t stages;

  __device__ __forceinline__ WgmmaWeightStream(const WgmmaPlan& plan, const WgmmaWorkTile& work) {
    const int passes = plan.split_passes();
    const int64_t begin = stage_of_pass(plan, work.split * passes);
    first = static_cast<int64_t>(work.group) * plan.arrangement.m_tiles * plan.loops.stages() + begin;
    stages = static_cast<int32_t>(stage_of_pass(plan, (work.split + 1) * passes) - begin);
  }

 private:
  // In a group's weight.
  __device__ __forceinline__ static int64_t stage_of_pass(const WgmmaPlan& plan, int pass) {
    const int32_t m_tile = plan.arrangement.by_phases.quotient(pass);
    return plan.loops.packed_stage(m_tile, plan.arrangement.by_phases.remainder(pass, m_tile));
  }
};

// The stages of a phase's loop that a work tile needs, of `all`.
struct WgmmaReadStages {
  int32_t first;
  int32_t count;
  int32_t all;

  __device__ __forceinline__ WgmmaReadStages(const WgmmaPlan& plan, const WgmmaWorkTile& work, int phase_index,
                                             int set) {
    const WgmmaLoops& loops = plan.loops;
    const int loop = phase_index * loops.sets + set;
    const WgmmaSteps steps = read_steps(plan, work, phase_index, set);
    first = loops.stage_of(steps.begin);
    count = loops.stage_of(steps.end + loops.stage_steps() - 1) - first;
    all = loops.first[loop + 1] - loops.first[loop];
  }
};

}  // namespace convt3d
