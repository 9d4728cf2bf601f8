// Neighbouring outputs of a thread on their way to its warp's staging.
#pragma once

#include "kernels/halo_staging_tables.cuh"
#include "kernels/halo_target.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace convt3d {

// To shared memory, unless the place is kHaloNoPlace.
template <typename T>
__device__ __forceinline__ void stage_two(uint32_t at, uint32_t place, float a, float b) {
  if constexpr (sizeof(T) == 4) {
    hopper::store_shared_unless<kHaloNoPlace>(at, place, a, b);
  } else {
    hopper::store_shared_unless<kHaloNoPlace>(at, place, rounded_pair<T>(a, b));
  }
}
template <typename T>
__device__ __forceinline__ void stage_four(uint32_t at, uint32_t place, float a, float b, float c, float d) {
  if constexpr (sizeof(T) == 4) {
    hopper::store_shared_unless<kHaloNoPlace>(at, place, a, b, c, d);
  } else {
    hopper::store_shared_unless<kHaloNoPlace>(at, place, rounded_pair<T>(a, b), rounded_pair<T>(c, d));
  }
}
__device__ __forceinline__ void stage_one(uint32_t at, uint32_t place, float a) {
  hopper::store_shared_unless<kHaloNoPlace>(at, place, a);
}

}  // namespace convt3d
