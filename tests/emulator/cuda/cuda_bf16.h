// Stands in for CUDA's header where kernels run on a CPU.
#pragma once

#include "cuda_runtime.h"
#include "machine/types.h"

struct __nv_bfloat16 {
  uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 value) { return emulator::bfloat16_to_float(value.bits); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return {emulator::float_to_bfloat16(value)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
inline unsigned __hle2_mask(__nv_bfloat162 a, __nv_bfloat162 b) {
  return (__bfloat162float(a.x) <= __bfloat162float(b.x) ? 0x0000FFFFu : 0u) |
         (__bfloat162float(a.y) <= __bfloat162float(b.y) ? 0xFFFF0000u : 0u);
}
