// Adds partial sums, [split][element], in an order that only their number decides: same partial sums, same bits. In
// float64, whatever the partial sums are, and rounded once.
#pragma once

#include <cstdint>

#include "core/call.h"
#include "core/integer.h"
#include "device/launch.cuh"
#include "device/numeric.cuh"
#include "device/ptx/shared_memory.cuh"

namespace convt3d {

constexpr int kOrderedSumThreads = 256;
constexpr int kOrderedSumAxes = 6;

// The block's sum of one double a thread, over threads whose index is equal modulo `apart`, a power of two, in a fixed
// order. All threads of the block call it.
template <int kThreads>
__device__ __forceinline__ double sum_over_threads(double value, int apart, double (&shared)[kThreads]) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int distance = kThreads / 2; distance >= apart; distance /= 2) {
    if (static_cast<int>(threadIdx.x) < distance) shared[threadIdx.x] += shared[threadIdx.x + distance];
    __syncthreads();
  }
  const double sum = shared[threadIdx.x % apart];
  __syncthreads();
  return sum;
}

// Elements are numbered as an array's, whose axes may be longer than the destination's: what lies past `size` is
// padding, and goes nowhere.
struct OrderedSumAxis {
  int64_t extent = 1;
  int64_t size = 1;
  int64_t stride = 0;  // of the destination, in elements
};

template <typename T, typename Partial>
struct OrderedSumParams {
  const Partial* partial;  // [split][element]
  int64_t splits;
  int64_t elements;
  OrderedSumAxis axis[kOrderedSumAxes];  // the fastest first; the last one takes what is left of an element's number
  T* destination;
};

// kLanes threads share an element's sum: lane i adds splits i, i + kLanes, ..., and then the lanes' sums are added.
template <typename T, typename Partial, int kLanes>
__global__ void __launch_bounds__(kOrderedSumThreads)
    convt3d_ordered_sum(const __grid_constant__ OrderedSumParams<T, Partial> params) {
  constexpr int kElements = kOrderedSumThreads / kLanes;  // of a block at a time
  static_assert(kElements * kLanes == kOrderedSumThreads, "lanes share a block evenly");
  const int lane = static_cast<int>(threadIdx.x) / kElements;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kElements;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kElements; first < params.elements; first += step) {
    const int64_t element = first + threadIdx.x % kElements;
    int64_t offset = 0;
    bool exists = element < params.elements;
    int64_t rest = element;
#pragma unroll
    for (int i = 0; i < kOrderedSumAxes; ++i) {
      const OrderedSumAxis& axis = params.axis[i];
      const int64_t at = i + 1 < kOrderedSumAxes ? rest % axis.extent : rest;
      if (i + 1 < kOrderedSumAxes) rest /= axis.extent;
      exists = exists && at < axis.size;
      offset += at * axis.stride;
    }
    double sum = 0;
    if (exists) {
#pragma unroll 4
      for (int64_t split = lane; split < params.splits; split += kLanes) {
        sum += params.partial[split * params.elements + element];
      }
    }
    if constexpr (kLanes > 1) {
      sum = sum_over_threads(sum, kElements, static_shared_memory<double[kOrderedSumThreads]>());
    }
    if (lane == 0 && exists) params.destination[offset] = from_accumulator<T>(sum);
  }
}

// One lane is for many elements; many lanes are for few elements of many splits.
template <int kLanes, typename T, typename Partial>
void add_in_order(const char* name, const OrderedSumParams<T, Partial>& params, Stream stream) {
  launch(name, convt3d_ordered_sum<T, Partial, kLanes>, ceil_div(params.elements, kOrderedSumThreads / kLanes),
         kOrderedSumThreads, stream, params);
}

}  // namespace convt3d
