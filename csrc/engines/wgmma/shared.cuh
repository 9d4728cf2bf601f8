// A block's shared memory and the barriers that link its warps.
#pragma once

#include "engines/wgmma/params.h"
#include "engines/wgmma/scheduler.cuh"
#include "engines/wgmma/store/target.cuh"

namespace convt3d {

struct HaloBarriers {
  uint64_t weights_full[kHaloMaxWeightStages];
  uint64_t weights_empty[kHaloMaxWeightStages];
  uint64_t copied[kHaloMaxTileStages];  // a tile that TMA has brought and that is yet to be split in two terms
  uint64_t tile_full[kHaloMaxTileStages];
  uint64_t tile_empty[kHaloMaxTileStages];
  uint64_t box_full[kHaloTileProducerWarps][kHaloBoxBuffers];
  uint64_t ping_pong[2];  // of each warpgroup of consumers: it may multiply
  HaloWorkRing work;

  // By a producer of tiles: a stage may be written; it is.
  __device__ __forceinline__ void enter_tile(const HaloPipelineState& state) {
    hopper::barrier_wait(&tile_empty[state.stage], state.parity ^ 1);
  }
  __device__ __forceinline__ void publish_tile(const HaloPipelineState& state) {
    hopper::fence_async_proxy();
    hopper::barrier_arrive(&tile_full[state.stage]);
  }
};

struct HaloShared {
  HaloBarriers* barriers;
  unsigned char* tiles;
  unsigned char* staging;
  unsigned char* weights;
  uint16_t* columns;
  HaloStoredSegment* segments;
  uint16_t* shifts;
  unsigned char* boxes;
  uint32_t* sources;

  __device__ __forceinline__ HaloShared(const HaloMemory& memory, unsigned char* shared)
      : barriers(reinterpret_cast<HaloBarriers*>(shared)),
        tiles(shared + memory.begin[kTilePart]),
        staging(shared + memory.begin[kStagingPart]),
        weights(shared + memory.begin[kWeightPart]),
        columns(reinterpret_cast<uint16_t*>(shared + memory.begin[kColumnPart])),
        segments(reinterpret_cast<HaloStoredSegment*>(shared + memory.begin[kSegmentPart])),
        shifts(reinterpret_cast<uint16_t*>(shared + memory.begin[kShiftPart])),
        boxes(shared + memory.begin[kBoxPart]),
        sources(reinterpret_cast<uint32_t*>(shared + memory.begin[kSourcePart])) {}
};
static_assert(sizeof(HaloBarriers) + 128 <= kHaloBarrierBytes);

}  // namespace convt3d
