// How long tensor cores sum before their sum joins one in memory.
#pragma once

#include <cstdint>

namespace convt3d {

// After how many of a block's `positions` its sum joins the one in memory. A sum in a tensor core is cut with each
// product that joins it. Of two terms (float32 proper) it has `at_once` positions and then joins a float32 sum in
// registers: of these two levels, about as many terms in each.
inline int64_t segment_positions(int32_t terms, int64_t at_once, int64_t positions) {
  constexpr int64_t kMost = 8192;
  if (terms == 1) return kMost;
  int64_t segment = 1024;
  while (segment < kMost && segment * segment < at_once * positions) segment *= 2;
  return segment;
}

}  // namespace convt3d
