// A number that is 1 or 2, such as a stride that an engine knows or a count of phases: to divide by it is to shift.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace convt3d {

struct OneOrTwo {
  int32_t value;

  CONVT3D_HOST_DEVICE constexpr operator int32_t() const { return value; }
  CONVT3D_HOST_DEVICE constexpr bool is_two() const { return value == 2; }
  CONVT3D_HOST_DEVICE constexpr int32_t log() const { return value - 1; }
  // Rounded down, of negative numbers, too.
  CONVT3D_HOST_DEVICE constexpr int32_t quotient(int32_t n) const { return n >> log(); }
  CONVT3D_HOST_DEVICE constexpr int32_t remainder(int32_t n) const { return n & log(); }
};

}  // namespace convt3d
