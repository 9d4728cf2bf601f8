// The taps with which a bias's gradient is summed, against their definition.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/bias_taps.h"
#include "terms.h"

namespace convt3d {

// Whether taps of an axis, bit k for tap k, reach each of its outputs once, taken together, and none from positions
// past the input's end.
inline bool reach_each_once(const Problem& problem, int axis, uint32_t taps) {
  const auto a = static_cast<std::size_t>(axis);
  std::vector<int> readers(static_cast<std::size_t>(problem.output_size(axis)), 0);
  for (int64_t tap = 0; tap < kMostBiasTaps; ++tap) {
    if ((taps >> tap & 1) == 0) continue;
    if (tap >= problem.kernel_size[a]) return false;
    for (int64_t i = 0; i < problem.input_size[a] + 40; ++i) {
      const int64_t output = i * problem.stride[a] - problem.padding[a] + tap * problem.dilation[a];
      if (output < 0 || output >= problem.output_size(axis)) continue;
      if (i >= problem.input_size[a]) return false;
      ++readers[static_cast<std::size_t>(output)];
    }
  }
  for (const int count : readers) {
    if (count != 1) return false;
  }
  return true;
}

// As many neighbouring taps as the stride.
inline uint32_t neighbouring_taps(const Problem& problem, int axis, int64_t first) {
  return static_cast<uint32_t>(((uint64_t{1} << problem.stride[static_cast<std::size_t>(axis)]) - 1) << first);
}

// Whether some taps have the bias's gradient of a problem.
inline bool check_bias_taps(const Problem& problem) {
  const std::optional<BiasTaps> taps = bias_taps(problem);
  for (int axis = 0; axis < 3; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    expect(!taps || reach_each_once(problem, axis, (*taps)[a]), "each output is summed once", problem);
    const std::optional<int64_t> first = first_bias_tap(problem, a);
    for (int64_t tap = 0; tap + problem.stride[a] <= std::min(problem.kernel_size[a], kMostBiasTaps); ++tap) {
      const bool reach = reach_each_once(problem, axis, neighbouring_taps(problem, axis, tap));
      expect(neighbours_reach_all(problem, a, tap) == reach, "neighbouring taps sum each output once", problem);
      expect(!reach || (first && *first <= tap), "the first of such taps is found", problem);
    }
  }
  return taps.has_value();
}

}  // namespace convt3d
