// A ring of places in shared memory that some of a block's warps fill and others read.
#pragma once

#include <cstdint>

#include "device/ptx/barrier.cuh"

namespace convt3d::mma {

// The places of a ring one after another, as the warps at one end of it go through them.
class RingPlace {
 public:
  // `barriers`: of each place, that it is filled, and that it may be filled anew.
  __device__ __forceinline__ RingPlace(uint64_t* barriers, int32_t count) : barriers_(barriers), count_(count) {}

  __device__ __forceinline__ int32_t index() const { return index_; }
  __device__ __forceinline__ void advance() {
    if (++index_ < count_) return;
    index_ = 0;
    parity_ ^= 1;
  }

  __device__ __forceinline__ void wait_filled() const { hopper::barrier_wait(filled(), parity_); }
  __device__ __forceinline__ void arrive_filled() const { hopper::barrier_arrive(filled()); }
  // Returns at once the first time that a place is filled.
  __device__ __forceinline__ void wait_emptied() const { hopper::barrier_wait(filled() + 1, parity_ ^ 1); }
  // A warp; one lane speaks for it.
  __device__ __forceinline__ void arrive_emptied() const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) hopper::barrier_arrive(filled() + 1);
  }

  // One thread; then a barrier of the block, before anybody else comes.
  __device__ __forceinline__ static void init(uint64_t* barriers, int32_t count, int32_t filling_threads,
                                              int32_t reading_warps) {
    for (int32_t i = 0; i < count; ++i) {
      hopper::barrier_init(barriers + 2 * i, filling_threads);
      hopper::barrier_init(barriers + 2 * i + 1, reading_warps);
    }
  }

 private:
  __device__ __forceinline__ uint64_t* filled() const { return barriers_ + 2 * index_; }

  uint64_t* barriers_;
  int32_t count_;
  int32_t index_ = 0;
  uint32_t parity_ = 0;
};

}  // namespace convt3d::mma
