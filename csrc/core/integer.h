// Integer arithmetic of the plans.
#pragma once

#include <cstdint>

namespace convt3d {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace convt3d
