// What the tensor-core engine's kernels receive, and how a block finds its work.
#pragma once

#include <cuda.h>

#include "device/ptx/shared_memory.cuh"
#include "device/source.cuh"
#include "engines/wgmma/plan/boxes.h"
#include "engines/wgmma/plan/plan.h"
#include "epilogue/epilogue.h"

namespace convt3d {

// A block's dynamic shared memory, laid out as HaloMemory says.
__device__ __forceinline__ unsigned char* halo_memory() { return dynamic_shared_memory_of_boxes(); }
// Of it, 128 bytes that nobody reads.
__device__ __forceinline__ unsigned char* halo_spare() { return halo_memory() + kHaloBarrierBytes - 128; }

// An entry of the tables of boxes of planes: a word of an image's channel, and its (first) position in the tile.
CONVT3D_HOST_DEVICE inline uint32_t halo_source(int word, int position) {
  return static_cast<uint32_t>(word | position << 16);
}

template <typename T>
struct HaloParams {
  CUtensorMap boxes;                // of the input
  CUtensorMap out[kHaloMaxPhases];  // of the output, for each residue outside the staging
  HaloPlan plan;
  HaloLoad load;
  Source<T> source;
  const unsigned char* weight;  // packed, see pack_weight.cuh
  uint32_t items;
  uint32_t weight_classes;  // see HaloGrid
  uint32_t lag_clocks;      // how much later the second warpgroup begins
  uint32_t* counters;       // of items, see items.cuh
  T* destination;
  Strides destination_stride;
  bool destination_channels_contiguous;
  bool boxes_out;  // the copy engine stores; `out` is filled
  Epilogue epilogue;
};

// One block's share of a tile. Splits and groups count fastest: blocks at work at the same time share lines of memory.
struct HaloItem {
  int split;
  int first[3];  // position of the tile along each axis
  int image;
  int group;

  __device__ __forceinline__ HaloItem(const HaloPlan& plan, uint32_t index) {
    int32_t rest = static_cast<int32_t>(index);
    split = plan.by_splits.take(rest);
    group = plan.by_groups.take(rest);
#pragma unroll
    for (int i = 2; i >= 0; --i) first[i] = plan.by_tiles[i].take(rest) * plan.tile[i];
    image = rest << plan.image_log;
  }
};

// The packed weight of an item's units, in stages.
struct HaloStream {
  int64_t first;
  int32_t stages;

  __device__ __forceinline__ HaloStream(const HaloPlan& plan, const HaloItem& item) {
    const int units = plan.units() / plan.splits;
    const int64_t begin = stage_of_unit(plan, item.split * units);
    first = static_cast<int64_t>(item.group) * plan.m_tiles * plan.stages() + begin;
    stages = static_cast<int32_t>(stage_of_unit(plan, (item.split + 1) * units) - begin);
  }

 private:
  __device__ __forceinline__ static int64_t stage_of_unit(const HaloPlan& plan, int unit) {
    return static_cast<int64_t>(unit / plan.phases) * plan.stages() + plan.first_stage(unit % plan.phases);
  }
};

}  // namespace convt3d
