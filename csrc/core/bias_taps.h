// Where the bias's gradient is a sum of rows (tap, output channel) of a weight gradient. As data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/problem.h"

namespace convt3d {

// Bit k of an axis: tap k is of those that reach each position of the output once, taken together: of each residue of
// the output by the stride one tap, which reaches all of them.
//
//     stride 2, kernel 3, padding 1       output    0  1  2  3  4  5
//                                         tap 1     x     x     x        bits 1 and 2: tap 0 reaches the same as tap 2,
//                                         tap 2        x     x     x     but for the last one
using BiasTaps = std::array<uint32_t, 3>;
constexpr int64_t kMostBiasTaps = 32;  // along an axis

// None where no taps do, such as those of a kernel of 1 at stride 2: some positions are nobody's.
std::optional<BiasTaps> bias_taps(const Problem& problem);
// Whether so many neighbouring taps as the stride, from this one on, reach each output of an axis once, taken together.
bool neighbours_reach_all(const Problem& problem, std::size_t axis, int64_t first_tap);
// The first tap of an axis for which that is so.
std::optional<int64_t> first_bias_tap(const Problem& problem, std::size_t axis);

}  // namespace convt3d
