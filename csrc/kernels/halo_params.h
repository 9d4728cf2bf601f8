// What the tensor-core engine's kernels receive, and how a block finds its work.
#pragma once

#include <cuda.h>

#include "halo_plan.h"
#include "kernels/source.cuh"

namespace convt3d {

// How tiles of the input come to shared memory.
enum class HaloLoad {
  kThreads,    // threads read them, whatever the layout
  kCopy,       // the copy engine, where channels are contiguous: boxes of channels, images, width, height, depth
  kTranspose,  // the copy engine and then threads, where the width is: boxes of width, height, depth, channels, images
};

template <typename T>
struct HaloParams {
  CUtensorMap boxes;
  HaloPlan plan;
  HaloLoad load;
  Source<T> source;
  const unsigned char* weight;  // packed, see pack_halo_weight.cuh
  const T* bias;
  int64_t bias_stride;
  T* destination;
  Strides destination_stride;
  bool destination_channels_contiguous;
  bool destination_vectors;  // four neighbours of an epilogue's row are aligned in memory, and all or none exist
  bool relu;
};

// One block's share of a tile. Splits and groups count fastest: blocks at work at the same time share lines of memory.
struct HaloItem {
  int split;
  int first[3];  // position of the tile along each axis
  int64_t image;
  int64_t group;

  __device__ __forceinline__ HaloItem(const HaloPlan& plan, uint32_t index) {
    split = static_cast<int>(take(index, plan.splits));
    group = take(index, static_cast<uint32_t>(plan.groups));
#pragma unroll
    for (int i = 2; i >= 0; --i) first[i] = static_cast<int>(take(index, plan.tiles[i])) * plan.tile[i];
    image = static_cast<int64_t>(index) << plan.image_log;
  }
  __device__ __forceinline__ bool same_weights(const HaloItem& other) const {
    return split == other.split && group == other.group;
  }

 private:
  __device__ __forceinline__ static uint32_t take(uint32_t& index, uint32_t count) {
    const uint32_t rest = index / count;
    const uint32_t taken = index - rest * count;
    index = rest;
    return taken;
  }
};

// The packed weight of an item's units, in stages.
struct HaloStream {
  int64_t first;
  int32_t stages;

  __device__ __forceinline__ HaloStream(const HaloPlan& plan, const HaloItem& item) {
    const int units = plan.units() / plan.splits;
    const int64_t begin = stage_of_unit(plan, item.split * units);
    first = item.group * plan.m_tiles * plan.stages() + begin;
    stages = static_cast<int32_t>(stage_of_unit(plan, (item.split + 1) * units) - begin);
  }

 private:
  __device__ __forceinline__ static int64_t stage_of_unit(const HaloPlan& plan, int unit) {
    return static_cast<int64_t>(unit / plan.phases) * plan.stages() + plan.first_stage(unit % plan.phases);
  }
};

}  // namespace convt3d
