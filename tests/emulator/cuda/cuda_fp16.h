// Stands in for CUDA's header where kernels run on a CPU.
#pragma once

#include "cuda_runtime.h"
#include "machine/types.h"

struct __half {
  uint16_t bits;
};
struct alignas(4) __half2 {
  __half x, y;
};

inline float __half2float(__half value) { return emulator::float16_to_float(value.bits); }
inline __half __float2half_rn(float value) { return {emulator::float_to_float16(value)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
inline unsigned __hle2_mask(__half2 a, __half2 b) {
  return (__half2float(a.x) <= __half2float(b.x) ? 0x0000FFFFu : 0u) |
         (__half2float(a.y) <= __half2float(b.y) ? 0xFFFF0000u : 0u);
}
