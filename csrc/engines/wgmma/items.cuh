// Which items a block takes. With equal shares fixed at the launch blocks end far apart (docs/dev/lab-notes.md): only
// the first few items are known then, every other one goes to the block that comes to it first. One thread claims it
// from a counter in memory and leaves its index in a ring in shared memory, where each walk over the block's items
// finds it.
#pragma once

#include "device/hopper.cuh"
#include "engines/wgmma/params.h"

namespace convt3d {

// Items of a block that are known before the first one's products are done: those at work, in the second tile, and in
// the boxes that loaders request ahead. A claim waits until every walk has come to the item so many before it.
constexpr int kHaloClaimedItems = 3;

// A place in a ring of barriers, and the parity of its next completion.
struct HaloPlace {
  int slot = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance(int slots) {
    if (++slot == slots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

// In shared memory.
struct HaloItemRing {
  uint64_t claimed[kHaloClaimedItems];
  uint64_t taken[kHaloClaimedItems];
  uint32_t index[kHaloClaimedItems];

  __device__ __forceinline__ void init(int walks) {
    for (int i = 0; i < kHaloClaimedItems; ++i) {
      hopper::barrier_init(&claimed[i], 1);
      hopper::barrier_init(&taken[i], walks);
    }
  }
};

// Who walks together: a thread alone or a warp. A warp may also look ahead of its other walk, which then must not pass
// it: nobody waits for that.
enum class HaloWalker { kThread, kWarp, kWarpAhead };

template <HaloWalker kWalker>
class HaloItems {
 public:
  __device__ __forceinline__ HaloItems(HaloItemRing& ring, uint32_t items)
      : ring_(ring), items_(items), index_(blockIdx.x) {
    take(0);
  }

  __device__ __forceinline__ bool ended() const { return index_ >= items_; }
  __device__ __forceinline__ uint32_t index() const { return index_; }
  __device__ __forceinline__ void advance() {
    ++number_;
    const uint32_t round = number_ / kHaloClaimedItems;
    const uint32_t slot = number_ % kHaloClaimedItems;
    if (round == 0) {
      index_ += gridDim.x;
    } else {
      hopper::barrier_wait(&ring_.claimed[slot], (round - 1) & 1);
      index_ = kWalker == HaloWalker::kThread || leads() ? ring_.index[slot] : 0;
      // A sum of one lane's: unlike after a shuffle, the compiler knows that all have the same.
      if constexpr (kWalker != HaloWalker::kThread) index_ = __reduce_or_sync(0xFFFFFFFFu, index_);
    }
    take(slot);
  }

 private:
  __device__ __forceinline__ void take(uint32_t slot) {
    if constexpr (kWalker == HaloWalker::kWarp) {
      if (!leads()) return;
    }
    if constexpr (kWalker != HaloWalker::kWarpAhead) hopper::barrier_arrive(&ring_.taken[slot]);
  }

  // Of a warp, one lane reads an item's index and says that it was read.
  __device__ __forceinline__ static bool leads() { return threadIdx.x % 32 == 0; }

  HaloItemRing& ring_;
  uint32_t items_;
  uint32_t index_;
  uint32_t number_ = 0;  // of the block's items
};

// Blocks of a class take items of that class only: all of a block use the same weights, which it then may keep.
class HaloClaims {
 public:
  // `counters`: of each class, zero at the launch; null: all items are known.
  __device__ __forceinline__ HaloClaims(HaloItemRing& ring, uint32_t* counters, uint32_t classes)
      : ring_(ring),
        counter_(counters == nullptr ? nullptr : counters + blockIdx.x % classes),
        first_((counters == nullptr ? blockIdx.x : blockIdx.x % classes) + kHaloClaimedItems * gridDim.x),
        step_(counters == nullptr ? gridDim.x : classes) {}

  __device__ __forceinline__ void claim() {
    const uint32_t round = claims_ / kHaloClaimedItems;
    const uint32_t slot = claims_ % kHaloClaimedItems;
    hopper::barrier_wait(&ring_.taken[slot], round & 1);
    ring_.index[slot] = first_ + step_ * (counter_ == nullptr ? claims_ : atomicAdd(counter_, 1u));
    hopper::barrier_arrive(&ring_.claimed[slot]);
    ++claims_;
  }

 private:
  HaloItemRing& ring_;
  uint32_t* counter_;
  uint32_t first_;
  uint32_t step_;
  uint32_t claims_ = 0;
};

}  // namespace convt3d
