// How an element enters the tensor cores.
#pragma once

#include "kernels/numeric.cuh"

namespace convt3d {

// Channels of one position in the 16 bytes that a plane holds of it.
template <typename T>
constexpr int kPieceChannels = 16 / sizeof(T);

// float32 is rounded to TF32, to nearest with ties away from zero, as the tensor cores themselves would truncate;
// 16-bit types enter as they are.
template <typename T>
__device__ __forceinline__ uint4 to_matrix_piece(const T (&values)[kPieceChannels<T>]) {
  uint4 piece = *reinterpret_cast<const uint4*>(values);
  if constexpr (sizeof(T) == 4) {
    uint32_t* bits = reinterpret_cast<uint32_t*>(&piece);
#pragma unroll
    for (int i = 0; i < 4; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits[i]) : "f"(values[i]));
  }
  return piece;
}

}  // namespace convt3d
