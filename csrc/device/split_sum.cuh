// Sums of a tile whose K several blocks share. Each leaves what it has summed in memory, for itself, and counts itself;
// the last one adds all of them, in order: who is last changes no bit.
//
// A thread has the same elements of a tile in all splits, whatever these are: kPieces times four, which it writes and
// reads beside those of its neighbours. `partial`: [split][sums of a tile], from the thread's first on.
#pragma once

#include <cstdint>

#include "device/overlap.cuh"
#include "device/ptx/global_memory.cuh"

namespace convt3d {

template <int kThreads, int kPieces>
__device__ __forceinline__ void leave_split(float* own, const float (&sum)[kPieces][4]) {
#pragma unroll
  for (int k = 0; k < kPieces; ++k) hopper::store_global(own + k * kThreads * 4, sum[k]);
}

// By one thread, once all of its block have left their sums. `adds`: whether the block adds those of all splits. The
// kernel before begins the counters of all tiles at zero.
__device__ __forceinline__ void count_split(uint32_t* counters, int64_t tile, int32_t splits, bool& adds) {
  wait_for_kernel_before();
  __threadfence();
  adds = atomicAdd(counters + tile, 1u) == static_cast<uint32_t>(splits - 1);
  __threadfence();
}

// kAtOnce pieces of kSplitsAtOnce splits are on their way at a time.
template <int kThreads, int kAtOnce, int kSplitsAtOnce, int kPieces>
__device__ __forceinline__ void add_splits(const float* partial, const int32_t& splits, float (&sum)[kPieces][4]) {
  static_assert(kPieces % kAtOnce == 0);
#pragma unroll
  for (int first = 0; first < kPieces; first += kAtOnce) {
#pragma unroll
    for (int k = first; k < first + kAtOnce; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[k][i] = 0;
    }
    const float* from = partial + first * kThreads * 4;
#pragma unroll kSplitsAtOnce
    for (int32_t split = 0; split < splits; ++split) {
      float values[kAtOnce][4];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) hopper::load_global(values[k], from + k * kThreads * 4);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[first + k][i] += values[k][i];
      }
      from += kPieces * kThreads * 4;
    }
  }
}

}  // namespace convt3d
