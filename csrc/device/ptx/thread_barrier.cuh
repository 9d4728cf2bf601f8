// Barriers of some of a block's threads ("barrier.sync", "barrier.arrive"): 16 of them, of which 0 is the whole
// block's.
#pragma once

#include <cstdint>

namespace convt3d {

// Waits at a named barrier for so many threads, whole warps, which come here or to arrive_threads().
__device__ __forceinline__ void sync_threads(int barrier, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
// Without waiting for the others, who see what this thread wrote before.
__device__ __forceinline__ void arrive_threads(int barrier, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace convt3d
