// Sums over lanes of a warp.
#pragma once

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

}  // namespace convt3d
