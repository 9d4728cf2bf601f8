// Moments of what a warp has of one output channel, before it is rounded.
#pragma once

#include "device/ptx/global_memory.cuh"
#include "epilogue/epilogue.h"

namespace convt3d {

// The sum over the lanes whose numbers differ in the bits of kBits alone; each of them gets it, with the same bits.
template <int kBits>
__device__ __forceinline__ float sum_over_lanes(float value) {
#pragma unroll
  for (int bit = 1; bit < 32; bit *= 2) {
    if ((kBits & bit) != 0) value += __shfl_xor_sync(0xFFFFFFFFu, value, bit);
  }
  return value;
}

// A bit for each of up to 32 * kWords places, of which those count that `exists` names. All lanes of the warp call it.
template <int kWords>
class PlaceBits {
 public:
  template <typename Exists>
  __device__ __forceinline__ PlaceBits(int lane, Exists&& exists) {
#pragma unroll
    for (int k = 0; k < kWords; ++k) words_[k] = __ballot_sync(0xFFFFFFFFu, exists(32 * k + lane));
  }
  __device__ __forceinline__ int count() const {
    int result = 0;
#pragma unroll
    for (int k = 0; k < kWords; ++k) result += __popc(words_[k]);
    return result;
  }
  // Of the places from `first` on, which is below 32: has() then is of first + place, in the same word.
  __device__ __forceinline__ PlaceBits from(int first) const {
    PlaceBits result = *this;
#pragma unroll
    for (int k = 0; k < kWords; ++k) result.words_[k] >>= first;
    return result;
  }
  __device__ __forceinline__ bool has(int place) const { return (words_[place / 32] >> (place % 32) & 1) != 0; }

 private:
  uint32_t words_[kWords];
};

// Of `count` values that the lanes have which differ in the bits of kBits: `visit` calls what it is given for each of
// the thread's own. Two passes, as the values are in registers: the first one's mean is the pivot.
template <int kBits, typename Visit>
__device__ __forceinline__ PartMoments part_moments(int count, Visit&& visit) {
  float sum = 0;
  visit([&](float value) { sum += value; });
  sum = sum_over_lanes<kBits>(sum);
  const float pivot = count > 0 ? sum / static_cast<float>(count) : 0;
  float deviations = 0;
  float squares = 0;
  visit([&](float value) {
    const float deviation = value - pivot;
    deviations += deviation;
    squares += deviation * deviation;
  });
  return {static_cast<float>(count), pivot, sum_over_lanes<kBits>(deviations), sum_over_lanes<kBits>(squares)};
}

__device__ __forceinline__ void store_moments(PartMoments* to, const PartMoments& moments) {
  const float values[4] = {moments.count, moments.pivot, moments.sum, moments.squares};
  hopper::store_global(reinterpret_cast<float*>(to), values);
}

}  // namespace convt3d
