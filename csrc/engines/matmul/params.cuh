// What the kernel of the matmul engine is told.
#pragma once

#include <cstdint>

#include "core/divisor.h"
#include "device/ptx/thread_barrier.cuh"
#include "device/source.cuh"
#include "engines/matmul/plan.h"
#include "epilogue/epilogue.h"

namespace convt3d {

template <typename T>
struct MatmulParams {
  const T* source;  // the input, or grad_output
  const T* weight;
  T* result;              // the output, or grad_input
  Strides source_stride;  // in elements
  Strides result_stride;
  int64_t weight_stride;  // from a row of the weight to the next
  Epilogue epilogue;
  MatmulPlan plan;
  MatmulLayout layout;
  Divisor by_size[3];  // of the input: width, height, depth
  Divisor by_volume;   // positions of an image
  Divisor by_taps[3];  // width, height, depth
  Divisor by_all_taps;
  Divisor by_channels;  // output channels of a group
  Divisor by_n_tiles;
  Divisor by_shares;  // groups x n_tiles
  Divisor by_splits;
  uint32_t* counters;
  float* partial;
};

// A thread's number in its team.
template <MatmulTile kTile>
__device__ __forceinline__ int32_t matmul_thread() {
  return static_cast<int32_t>(threadIdx.x) % matmul_extent(kTile).threads();
}

// Waits for the threads of a team.
template <MatmulTile kTile, bool kTeams>
__device__ __forceinline__ void sync_matmul_team() {
  constexpr int kThreads = matmul_extent(kTile).threads();
  if constexpr (kTeams) {
    sync_threads(1 + static_cast<int>(threadIdx.x) / kThreads, kThreads);
  } else {
    __syncthreads();
  }
}

}  // namespace convt3d
