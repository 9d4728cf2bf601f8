// Arithmetic that C++ has no word for.
#pragma once

#include <cstdint>

namespace convt3d {

// The bits of the nearest TF32, ties away from zero (compute capability 8.0 and later).
__device__ __forceinline__ uint32_t rounded_to_tf32(float value) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

// A word that the tensor cores read as the nearest TF32: they do not look at the mantissa's last 13 bits. Ties go to
// the even one from compute capability 9.0 on, where that is one instruction, and away from zero before. What is not
// finite stays so.
__device__ __forceinline__ uint32_t word_of_tf32(uint32_t word) {
#if __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(word) : "f"(__uint_as_float(word)));
#else
  if (fabsf(__uint_as_float(word)) < __uint_as_float(0x7F800000)) word += 0x1000;
#endif
  return word;
}

// The greater; a NaN stays.
__device__ __forceinline__ float greater(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return a > b || a != a ? a : b;
#endif
}

// 1 / value, to a unit in the last place (23 bits). Computed where it is used: the compiler would keep it in a register
// from the first use on.
__device__ __forceinline__ float reciprocal_here(int32_t value) {
  float result;
  asm volatile(
      "{\n"
      ".reg .f32 exact;\n"
      "cvt.rn.f32.s32 exact, %1;\n"
      "rcp.approx.ftz.f32 %0, exact;\n"
      "}\n"
      : "=f"(result)
      : "r"(value));
  return result;
}

}  // namespace convt3d
