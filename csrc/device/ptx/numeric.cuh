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

// By zero, too, for quotients that nobody uses: the device does not stop there.
__device__ __forceinline__ uint32_t quotient_or_any(uint32_t dividend, uint32_t divisor) { return dividend / divisor; }

}  // namespace convt3d
