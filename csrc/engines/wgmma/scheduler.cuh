// Which work tiles a block takes. With equal shares fixed at the launch blocks end far apart (docs/dev/lab-notes.md):
// only the first few work tiles are known then, every other one goes to the block that comes to it first. One thread
// claims it from a counter in memory (an atomic addition: which block computes a work tile changes no value) and leaves
// its index in a ring in shared memory, where each walk over the block's work tiles finds it.
#pragma once

#include "device/hopper.cuh"
#include "device/small_quotient.h"
#include "engines/wgmma/params.h"

namespace convt3d {

// Work tiles of a block that are known before the first one's products are done: those at work, in the second tile, and
// in the boxes that producers request ahead. A claim waits until every walk has come to the work tile so many before
// it.
constexpr int kWgmmaClaimedAhead = 3;

// A stage of a pipeline, and the parity with which its barrier completes next.
struct WgmmaPipelineState {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance(int stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// The ring of claimed work tiles, in shared memory.
struct WgmmaWorkRing {
  uint64_t claimed[kWgmmaClaimedAhead];
  uint64_t taken[kWgmmaClaimedAhead];
  uint32_t index[kWgmmaClaimedAhead];

  __device__ __forceinline__ void init(int walks) {
    for (int i = 0; i < kWgmmaClaimedAhead; ++i) {
      hopper::barrier_init(&claimed[i], 1);
      hopper::barrier_init(&taken[i], walks);
    }
  }
};

// Who walks together: a thread alone or a warp. A warp may also look ahead of its other walk, which then must not pass
// it: nobody waits for that.
enum class WgmmaWalker { kThread, kWarp, kWarpAhead };

template <WgmmaWalker kWalker>
class WgmmaWorkWalk {
 public:
  __device__ __forceinline__ WgmmaWorkWalk(WgmmaWorkRing& ring, uint32_t work_tiles)
      : ring_(ring), work_tiles_(work_tiles), index_(blockIdx.x) {
    take(0);
  }

  __device__ __forceinline__ bool ended() const { return index_ >= work_tiles_; }
  __device__ __forceinline__ uint32_t index() const { return index_; }
  __device__ __forceinline__ void advance() {
    ++number_;
    const uint32_t round = number_ / kWgmmaClaimedAhead;
    const uint32_t entry = number_ % kWgmmaClaimedAhead;
    if (round == 0) {
      index_ += gridDim.x;
    } else {
      hopper::barrier_wait(&ring_.claimed[entry], (round - 1) & 1);
      index_ = kWalker == WgmmaWalker::kThread || leads() ? ring_.index[entry] : 0;
      // A sum of one lane's: unlike after a shuffle, the compiler knows that all have the same.
      if constexpr (kWalker != WgmmaWalker::kThread) index_ = __reduce_or_sync(0xFFFFFFFFu, index_);
    }
    take(entry);
  }

 private:
  __device__ __forceinline__ void take(uint32_t entry) {
    if constexpr (kWalker == WgmmaWalker::kWarp) {
      if (!leads()) return;
    }
    if constexpr (kWalker != WgmmaWalker::kWarpAhead) hopper::barrier_arrive(&ring_.taken[entry]);
  }

  // One lane of a warp reads a work tile's index and says that it was read.
  __device__ __forceinline__ static bool leads() { return threadIdx.x % 32 == 0; }

  WgmmaWorkRing& ring_;
  uint32_t work_tiles_;
  uint32_t index_;
  uint32_t number_ = 0;  // of the block's work tiles
};

// Blocks of a class take work tiles of that class only: all of a block use the same weights, which it then may keep.
class WgmmaWorkClaims {
 public:
  // `counters`: of each class, zero at the launch; null: all work tiles are known.
  __device__ __forceinline__ WgmmaWorkClaims(WgmmaWorkRing& ring, uint32_t* counters, uint32_t classes)
      : ring_(ring),
        counter_(counters == nullptr ? nullptr : counters + class_of_block(classes)),
        first_((counters == nullptr ? blockIdx.x : class_of_block(classes)) + kWgmmaClaimedAhead * gridDim.x),
        step_(counters == nullptr ? gridDim.x : classes) {}

  __device__ __forceinline__ void claim() {
    const uint32_t round = claims_ / kWgmmaClaimedAhead;
    const uint32_t entry = claims_ % kWgmmaClaimedAhead;
    hopper::barrier_wait(&ring_.taken[entry], round & 1);
    ring_.index[entry] = first_ + step_ * (counter_ == nullptr ? claims_ : atomicAdd(counter_, 1u));
    hopper::barrier_arrive(&ring_.claimed[entry]);
    ++claims_;
  }

 private:
  __device__ __forceinline__ static uint32_t class_of_block(uint32_t classes) {
    auto block = static_cast<int32_t>(blockIdx.x);  // of as many as there are multiprocessors
    return static_cast<uint32_t>(take_small(block, static_cast<int32_t>(classes)));
  }

  WgmmaWorkRing& ring_;
  uint32_t* counter_;
  uint32_t first_;
  uint32_t step_;
  uint32_t claims_ = 0;
};

}  // namespace convt3d
