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

// Of the values that the lanes have which differ in the bits of kBits. All of them are added twice, as they are in
// registers: the mean of the first time is the pivot of the second.
template <int kBits>
class MomentSums {
 public:
  __device__ __forceinline__ void add_first(float value) { sum_ += value; }
  // `count`: of the values of all these lanes.
  __device__ __forceinline__ void begin_second(int count) {
    count_ = static_cast<float>(count);
    sum_ = sum_over_lanes<kBits>(sum_);
    pivot_ = count > 0 ? sum_ / count_ : 0;
    sum_ = 0;
  }
  __device__ __forceinline__ void add_second(float value) {
    const float deviation = value - pivot_;
    sum_ += deviation;
    squares_ += deviation * deviation;
  }
  __device__ __forceinline__ PartMoments result() const {
    return {count_, pivot_, sum_over_lanes<kBits>(sum_), sum_over_lanes<kBits>(squares_)};
  }

 private:
  float count_ = 0;
  float pivot_ = 0;
  float sum_ = 0;
  float squares_ = 0;
};

__device__ __forceinline__ void store_moments(PartMoments* to, const PartMoments& moments) {
  const float values[4] = {moments.count, moments.pivot, moments.sum, moments.squares};
  hopper::store_global(reinterpret_cast<float*>(to), values);
}

}  // namespace convt3d
