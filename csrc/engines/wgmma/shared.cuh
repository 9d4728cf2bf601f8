// A block's shared memory and the barriers that link its warps.
#pragma once

#include "engines/wgmma/items.cuh"
#include "engines/wgmma/params.h"
#include "engines/wgmma/store/target.cuh"

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

  // By a thread that loads: a slot may be written; it is.
  __device__ __forceinline__ void enter_tile(const HaloPlace& place) {
    hopper::barrier_wait(&tile_empty[place.slot], place.parity ^ 1);
  }
  __device__ __forceinline__ void publish_tile(const HaloPlace& place) {
    hopper::fence_async_proxy();
    hopper::barrier_arrive(&tile_full[place.slot]);
  }
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
  uint32_t* sources;

  __device__ __forceinline__ HaloShared(const HaloMemory& memory, unsigned char* shared)
      : barriers(reinterpret_cast<HaloBarriers*>(shared)),
        tiles(shared + memory.tiles),
        staging(shared + memory.staging),
        ring(shared + memory.ring),
        columns(reinterpret_cast<uint16_t*>(shared + memory.columns)),
        segments(reinterpret_cast<HaloStoredSegment*>(shared + memory.segments)),
        shifts(reinterpret_cast<uint16_t*>(shared + memory.shifts)),
        boxes(shared + memory.boxes),
        sources(reinterpret_cast<uint32_t*>(shared + memory.sources)) {}
};
static_assert(sizeof(HaloBarriers) + 128 <= kHaloBarrierBytes);

}  // namespace convt3d
