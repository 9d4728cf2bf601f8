// A block's shared memory and the barriers that link its warps.
#pragma once

#include "engines/wgmma/params.h"
#include "engines/wgmma/scheduler.cuh"
#include "engines/wgmma/store/target.cuh"

namespace convt3d {

struct WgmmaBarriers {
  uint64_t weights_full[kWgmmaMaxWeightStages];
  uint64_t weights_empty[kWgmmaMaxWeightStages];
  uint64_t copied[kWgmmaMaxTileStages];  // a tile that TMA has brought and that is yet to be split in two terms
  uint64_t tile_full[kWgmmaMaxTileStages];
  uint64_t tile_empty[kWgmmaMaxTileStages];
  uint64_t box_full[kWgmmaTileProducerWarps][kWgmmaBoxBuffers];
  uint64_t ping_pong[2];  // of each warpgroup of consumers: it may multiply
  WgmmaWorkRing work;

  // By a producer of tiles: a stage may be written; it is.
  __device__ __forceinline__ void enter_tile(const WgmmaPipelineState& state) {
    hopper::barrier_wait(&tile_empty[state.stage], state.parity ^ 1);
  }
  __device__ __forceinline__ void publish_tile(const WgmmaPipelineState& state) {
    hopper::fence_async_proxy();
    hopper::barrier_arrive(&tile_full[state.stage]);
  }
};

struct WgmmaShared {
  WgmmaBarriers* barriers;
  unsigned char* tiles;
  unsigned char* staging;
  unsigned char* weights;
  uint16_t* columns;
  WgmmaStoredSegment* segments;
  uint16_t* shifts;
  unsigned char* boxes;
  uint32_t* sources;

  __device__ __forceinline__ WgmmaShared(const WgmmaMemory& memory, unsigned char* shared)
      : barriers(reinterpret_cast<WgmmaBarriers*>(shared)),
        tiles(shared + memory.begin[kTilePart]),
        staging(shared + memory.begin[kStagingPart]),
        weights(shared + memory.begin[kWeightPart]),
        columns(reinterpret_cast<uint16_t*>(shared + memory.begin[kColumnPart])),
        segments(reinterpret_cast<WgmmaStoredSegment*>(shared + memory.begin[kSegmentPart])),
        shifts(reinterpret_cast<uint16_t*>(shared + memory.begin[kShiftPart])),
        boxes(shared + memory.begin[kBoxPart]),
        sources(reinterpret_cast<uint32_t*>(shared + memory.begin[kSourcePart])) {}
};
static_assert(sizeof(WgmmaBarriers) + 128 <= kWgmmaBarrierBytes);

}  // namespace convt3d
