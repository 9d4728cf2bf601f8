// Quotients by a number that is known only at run time, without a division.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace convt3d {

// n / value for 0 <= n < 2^31: one product and a shift.
struct Divisor {
  uint32_t value;
  uint32_t factor;  // 2^shift / value, rounded up
  uint32_t shift;

  CONVT3D_HOST_DEVICE int32_t quotient(int32_t n) const {
    return static_cast<int32_t>((static_cast<uint64_t>(static_cast<uint32_t>(n)) * factor) >> shift);
  }
  CONVT3D_HOST_DEVICE int32_t remainder(int32_t n, int32_t quotient) const {
    return n - quotient * static_cast<int32_t>(value);
  }
  // Takes the remainder off `n`, which becomes the quotient.
  CONVT3D_HOST_DEVICE int32_t take(int32_t& n) const {
    const int32_t whole = quotient(n);
    const int32_t rest = remainder(n, whole);
    n = whole;
    return rest;
  }
};

// Exact for n < 2^31: the factor exceeds 2^shift / value by less than 1, which n times stays below 2^31 <= 2^shift /
// value.
inline Divisor make_divisor(int64_t value) {
  uint32_t bits = 0;
  while ((int64_t{1} << bits) < value) ++bits;
  const uint32_t shift = 31 + bits;
  const uint64_t factor = ((uint64_t{1} << shift) + value - 1) / value;
  return {static_cast<uint32_t>(value), static_cast<uint32_t>(factor), shift};
}

}  // namespace convt3d
