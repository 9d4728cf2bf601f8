// The 16-bit types, to and from float, rounded to nearest even.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace emulator {

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float bfloat16_to_float(uint16_t bits) { return float_of_bits(uint32_t{bits} << 16); }
inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = bits_of_float(value);
  if (std::isnan(value)) return 0x7FFF;
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline float float16_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = bits >> 10 & 0x1F;
  const uint32_t mantissa = bits & 0x3FF;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 0x1F) return float_of_bits(sign | 0x7F800000 | mantissa << 13);
  return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}
inline uint16_t float_to_float16(float value) {
  const uint32_t bits = bits_of_float(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return 0x7FFF;
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7C00);
  if (magnitude < 0x1p-14f)
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f)));
  const uint32_t rounded = (bits & 0x7FFFFFFF) + 0xFFF + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

}  // namespace emulator
