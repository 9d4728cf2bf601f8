// Float32 proper on the tensor cores: two numbers of TF32 stand for one.
#pragma once

#include <cstdint>

#include "device/ptx/numeric.cuh"

namespace convt3d {

// Their sum is the number, to 22 bits: the nearest TF32, and what it leaves. Nothing finite becomes infinite, and an
// infinity is in what is left.
struct TwoTerms {
  uint32_t high;
  uint32_t low;
};
__device__ __forceinline__ TwoTerms two_terms(float value) {
  const float largest = __uint_as_float(0x7F7FE000);
  const float high = fminf(fmaxf(__uint_as_float(rounded_to_tf32(value)), -largest), largest);
  return {__float_as_uint(high), __float_as_uint(value - high)};
}

}  // namespace convt3d
