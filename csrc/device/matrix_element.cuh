// How an element enters the tensor cores.
#pragma once

#include "device/numeric.cuh"
#include "device/ptx/numeric.cuh"

namespace convt3d {

// Channels of one position in the 16 bytes that a plane holds of it.
template <typename T>
constexpr int kPieceChannels = 16 / sizeof(T);

// Elements as the tensor cores read them, in one term: float32 is rounded to TF32, to nearest with ties away from zero,
// as the tensor cores themselves would truncate; 16-bit types enter as they are.
template <typename T>
__device__ __forceinline__ uint4 to_matrix_piece(const T (&values)[kPieceChannels<T>]) {
  uint4 piece = *reinterpret_cast<const uint4*>(values);
  if constexpr (sizeof(T) == 4) {
    uint32_t* bits = reinterpret_cast<uint32_t*>(&piece);
#pragma unroll
    for (int i = 0; i < 4; ++i) bits[i] = rounded_to_tf32(values[i]);
  }
  return piece;
}

// A word that the tensor cores read: of float32 the nearest TF32.
template <typename T>
__device__ __forceinline__ uint32_t to_matrix_word(uint32_t word) {
  if constexpr (sizeof(T) == 4) return word_of_tf32(word);
  return word;
}

// The low terms of float32 in two terms, rounded. The tensor cores read float32 as its high term, cutting the
// mantissa's last 13 bits (nothing finite overflows). Where an element is not finite, its low term and what it reaches
// are NaN.
__device__ __forceinline__ uint4 low_piece(uint4 piece) {
  uint32_t* bits = reinterpret_cast<uint32_t*>(&piece);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    bits[i] = rounded_to_tf32(__uint_as_float(bits[i]) - __uint_as_float(bits[i] & 0xFFFFE000));
  }
  return piece;
}

}  // namespace convt3d
