// Moments of what a warp has of one output channel, before it is rounded.
#pragma once

#include "device/lanes.cuh"
#include "device/ptx/global_memory.cuh"
#include "epilogue/epilogue.h"

namespace convt3d {

// Gathers the moments of the values that those lanes have which differ in the bits of kBits. The pivot is the mean of
// some of the values: none of the others then deviates from it by more than a part whose variance is no smaller.
template <int kBits>
class MomentSums {
 public:
  // Before any value is added: the sum of some of the lane's, and the number of these of all lanes, not 0.
  __device__ __forceinline__ void choose_pivot(float sum, int count) {
    pivot_ = sum_over_lanes<kBits>(sum) / static_cast<float>(count);
  }
  // The same where several rows have as many: `share` is 1 / count.
  __device__ __forceinline__ void choose_pivot_by_share(float sum, float share) {
    pivot_ = sum_over_lanes<kBits>(sum) * share;
  }
  __device__ __forceinline__ void add(float value) {
    const float deviation = value - pivot_;
    sum_ += deviation;
    squares_ += deviation * deviation;
  }
  // `count`: of the values of all lanes.
  __device__ __forceinline__ PartMoments result(int count) const {
    return {static_cast<float>(count), pivot_, sum_over_lanes<kBits>(sum_), sum_over_lanes<kBits>(squares_)};
  }

 private:
  float pivot_ = 0;
  float sum_ = 0;
  float squares_ = 0;
};

__device__ __forceinline__ void store_moments(PartMoments* to, const PartMoments& moments) {
  const float values[4] = {moments.count, moments.pivot, moments.sum, moments.squares};
  hopper::store_global(reinterpret_cast<float*>(to), values);
}

}  // namespace convt3d
