// Integer arithmetic of the plans.
#pragma once

#include <cstdint>

namespace convt3d {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
constexpr int exact_log2(int64_t power_of_two) { return power_of_two == 1 ? 0 : 1 + exact_log2(power_of_two / 2); }

}  // namespace convt3d
