// A kernel's parameters lie in memory when it begins: each line of 64 bytes is fetched when it is first read, and what
// begins with many of them waits for one after the other. Here all of them are fetched at once.
#pragma once

#include <cstdint>

#include "device/ptx/threads.cuh"

namespace convt3d {

// By all threads of a block of kWarps warps, each of which reads some lines. What it returns goes to store_touched(),
// later, so that nobody waits for it; else the compiler would read nothing.
template <int kWarps, typename Params>
__device__ __forceinline__ uint32_t touch_params(const Params& params) {
  constexpr int kLineWords = 16;
  constexpr int kLines = static_cast<int>((sizeof(Params) / 4 + kLineWords - 1) / kLineWords);
  const auto* const words = reinterpret_cast<const int32_t*>(&params);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int32_t touched = 0;
#pragma unroll
  for (int i = 0; i < (kLines + kWarps - 1) / kWarps; ++i) {
    const int line = i * kWarps + warp;
    touched ^= words[(line < kLines ? line : 0) * kLineWords];
  }
  return static_cast<uint32_t>(hopper::computed_here(touched));
}

// By one lane of each warp: into a word of its own, of shared memory that is written before it is read.
__device__ __forceinline__ void store_touched(uint32_t touched, unsigned char* words) {
  reinterpret_cast<uint32_t*>(words)[threadIdx.x / 32] = touched;
}

}  // namespace convt3d
