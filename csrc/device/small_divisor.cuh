// Quotients by a number that a block knows only at run time (core/divisor.h: by one that the host knows).
#pragma once

#include <cstdint>

#include "device/ptx/numeric.cuh"
#include "device/small_quotient.h"

namespace convt3d {

// Divides numbers below 2^14, by a product with the reciprocal.
class SmallDivisor {
 public:
  __device__ __forceinline__ explicit SmallDivisor(int divisor)
      : divisor_(divisor), reciprocal_(fixed_reciprocal(reciprocal_here(divisor))) {}
  __device__ __forceinline__ int quotient(int value) const {
    return static_cast<int>(__umulhi(2 * static_cast<uint32_t>(value), reciprocal_));
  }
  // Leaves the remainder.
  __device__ __forceinline__ int divide(int& value) const {
    const int result = quotient(value);
    value -= result * divisor_;
    return result;
  }

 private:
  int divisor_;
  uint32_t reciprocal_;
};

}  // namespace convt3d
