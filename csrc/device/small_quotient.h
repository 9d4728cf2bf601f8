// Quotients of small numbers by small numbers that are known only at run time: the device's division of integers is
// more than twenty instructions, and a small layer waits for the code of its kernel.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#ifdef __CUDA_ARCH__
#include "device/ptx/numeric.cuh"
#endif

namespace convt3d {

// Whoever divides by numbers of a problem bounds them first.
constexpr int32_t kMostSmall = 1 << 20;

// a / b, by a reciprocal of b that is off by a unit in the last place (2^-23 of it) at most, for 0 <= a <= kMostSmall.
// Exact: a + 1/2 over b is 1/(2b) or more from a whole number, 2^-21 of it or more, and what is computed is off by
// 2^-22 of it at most.
CONVT3D_HOST_DEVICE inline int32_t quotient_by(int32_t a, float reciprocal) {
  return static_cast<int32_t>((static_cast<float>(a) + 0.5f) * reciprocal);
}

// a / b for 0 <= a <= kMostSmall and 0 < b.
CONVT3D_HOST_DEVICE inline int32_t small_quotient(int32_t a, int32_t b) {
#ifdef __CUDA_ARCH__
  return quotient_by(a, reciprocal_here(b));
#else
  return a / b;
#endif
}

// What 2 * a times is a / b times 2^32 and less than 2^32 / b more, for a and b below 2^14. `reciprocal` as above.
CONVT3D_HOST_DEVICE inline uint32_t fixed_reciprocal(float reciprocal) {
  return static_cast<uint32_t>(reciprocal * (0x1p31f * (1 + 0x1p-20f))) + 1;
}

// Takes the remainder by `b` off `a`, which becomes the quotient.
CONVT3D_HOST_DEVICE inline int32_t take_small(int32_t& a, int32_t b) {
  const int32_t quotient = small_quotient(a, b);
  const int32_t remainder = a - quotient * b;
  a = quotient;
  return remainder;
}

}  // namespace convt3d
