// Quotients by a reciprocal, which a device has to a unit in the last place.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "device/small_quotient.h"

int main() {
  using convt3d::kMostSmall;
  std::mt19937 random(1);
  std::uniform_int_distribution<int> any(0, kMostSmall);
  int failures = 0;
  const auto check = [&](int a, int b) {
    const float nearest = 1 / static_cast<float>(b);
    for (const float reciprocal : {std::nextafter(nearest, 0.0f), nearest, std::nextafter(nearest, 2.0f)}) {
      const uint64_t fixed = convt3d::fixed_reciprocal(reciprocal);
      const bool is_fixed = a >= 1 << 14 || b >= 1 << 14 || static_cast<int>(2 * a * fixed >> 32) == a / b;
      if (convt3d::quotient_by(a, reciprocal) == a / b && is_fixed) continue;
      if (++failures <= 10) std::printf("FAILED %d / %d\n", a, b);
    }
  };
  const auto check_divisor = [&](int b) {
    for (int i = 0; i < 20; ++i) {
      const int multiple = any(random) / b * b;
      for (const int a : {any(random), multiple, std::max(0, multiple - 1), kMostSmall, kMostSmall / b * b,
                          std::max(0, kMostSmall / b * b - 1)}) {
        check(a, b);
      }
    }
  };
  for (int b = 1; b <= 20000; ++b) check_divisor(b);
  for (int i = 0; i < 20000; ++i) check_divisor(std::max(1, any(random)));
  for (const int b : {kMostSmall - 1, kMostSmall, kMostSmall + 1, 1 << 24, (1 << 30) + 1, 0x7FFFFFFF}) check_divisor(b);
  for (int a = 0; a <= kMostSmall; ++a) check(a, 3);
  for (int b = 1; b < 1 << 14; ++b) {
    for (int multiple = b; multiple < 1 << 14; multiple += b) {
      check(multiple, b);
      check(multiple - 1, b);
    }
  }
  return failures == 0 ? 0 : 1;
}
