// Integer arithmetic of the plans.
#pragma once

#include <cstdint>

namespace convt3d {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
// What a part of a workspace takes of so many bytes, so that the part behind it begins at a multiple of 256.
constexpr int64_t workspace_part(int64_t bytes) { return round_up(bytes, 256); }
// The remainder that is not negative.
constexpr int64_t floor_mod(int64_t a, int64_t b) { return ((a % b) + b) % b; }
constexpr int exact_log2(int64_t power_of_two) { return power_of_two == 1 ? 0 : 1 + exact_log2(power_of_two / 2); }

}  // namespace convt3d
