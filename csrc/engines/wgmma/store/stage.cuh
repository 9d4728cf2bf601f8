// Neighbouring outputs of a thread on their way to its warp's staging.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "engines/wgmma/store/staging_tables.cuh"
#include "engines/wgmma/store/target.cuh"

namespace convt3d {

// Changes a warp's accumulators. `finish`: of a value, its set and whether its row is lane/4 (0) or lane/4 + 8 (1).
template <int kSets, int kCount, typename Finish>
__device__ __forceinline__ void change(float (&c)[kSets][kCount], Finish&& finish) {
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) c[set][i] = finish(c[set][i], set, i / 2 % 2);
  }
}

// To shared memory, unless the entry of the table of columns is kWgmmaNotStaged.
template <typename T>
__device__ __forceinline__ void stage_two(uint32_t at, uint32_t entry, float a, float b) {
  if constexpr (sizeof(T) == 4) {
    hopper::store_shared_unless<kWgmmaNotStaged>(at, entry, a, b);
  } else {
    hopper::store_shared_unless<kWgmmaNotStaged>(at, entry, rounded_pair<T>(a, b));
  }
}
template <typename T>
__device__ __forceinline__ void stage_four(uint32_t at, uint32_t entry, float a, float b, float c, float d) {
  if constexpr (sizeof(T) == 4) {
    hopper::store_shared_unless<kWgmmaNotStaged>(at, entry, a, b, c, d);
  } else {
    hopper::store_shared_unless<kWgmmaNotStaged>(at, entry, rounded_pair<T>(a, b), rounded_pair<T>(c, d));
  }
}
__device__ __forceinline__ void stage_one(uint32_t at, uint32_t entry, float a) {
  hopper::store_shared_unless<kWgmmaNotStaged>(at, entry, a);
}

}  // namespace convt3d
