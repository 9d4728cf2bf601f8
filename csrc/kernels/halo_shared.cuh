// A block's shared memory and the barriers that link its warps.
#pragma once

#include "kernels/halo_items.cuh"
#include "kernels/halo_params.h"
#include "kernels/halo_target.cuh"

namespace convt3d {

struct HaloBarriers {
  uint64_t weights_full[kHaloMaxRing];
  uint64_t weights_empty[kHaloMaxRing];
  uint64_t copied[kHaloMaxSlots];  // a tile that is still to be split in two terms
  uint64_t tile_full[kHaloMaxSlots];
  uint64_t tile_empty[kHaloMaxSlots];
  uint64_t box_full[kHaloLoaderWarps][kHaloBoxBuffers];
  uint64_t turn[2];  // of each multiplying warpgroup
  HaloItemRing items;
};

struct HaloShared {
  HaloBarriers* barriers;
  unsigned char* tiles;
  unsigned char* staging;
  unsigned char* ring;
  uint16_t* columns;
  HaloStoredSegment* segments;
  uint16_t* shifts;
  unsigned char* boxes;

  __device__ __forceinline__ HaloShared(const HaloMemory& memory, unsigned char* shared)
      : barriers(reinterpret_cast<HaloBarriers*>(shared)),
        tiles(shared + memory.tiles),
        staging(shared + memory.staging),
        ring(shared + memory.ring),
        columns(reinterpret_cast<uint16_t*>(shared + memory.columns)),
        segments(reinterpret_cast<HaloStoredSegment*>(shared + memory.segments)),
        shifts(reinterpret_cast<uint16_t*>(shared + memory.shifts)),
        boxes(shared + memory.boxes) {}
};
static_assert(sizeof(HaloBarriers) + 128 <= kHaloBarrierBytes);

}  // namespace convt3d
