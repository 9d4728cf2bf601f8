// csrc/device/ptx/numeric.cuh on a CPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "machine/types.h"

namespace convt3d {

inline uint32_t rounded_to_tf32(float value) {
  const uint32_t bits = emulator::bits_of_float(value);
  return std::isfinite(value) ? (bits + 0x1000) & 0xFFFFE000 : bits;
}

inline uint32_t word_of_tf32(uint32_t word) {
  return std::isfinite(emulator::float_of_bits(word)) ? word + 0x1000 : word;
}

inline float greater(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return NAN;
  return a > b ? a : b;
}

// Of zero nobody uses it.
inline float reciprocal_here(int32_t value) { return value == 0 ? 0 : 1 / static_cast<float>(value); }

}  // namespace convt3d
