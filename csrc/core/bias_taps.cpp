#include "core/bias_taps.h"

#include <cstddef>

namespace convt3d {
namespace {

// Whether a tap reaches all outputs of an axis whose remainder by the stride is `residue`, each from one input
// position.
bool reaches(const Problem& problem, std::size_t axis, int64_t tap, int64_t residue) {
  const int64_t stride = problem.stride[axis];
  const int64_t last = residue + (problem.output_size(static_cast<int>(axis)) - 1 - residue) / stride * stride;
  const int64_t first = tap * problem.dilation[axis] - problem.padding[axis];  // output of input position 0
  return (residue - first) % stride == 0 && first <= residue && first + (problem.input_size[axis] - 1) * stride >= last;
}

// A tap that does; negative where there is none.
int64_t tap_of(const Problem& problem, std::size_t axis, int64_t residue) {
  for (int64_t tap = 0; tap < problem.kernel_size[axis]; ++tap) {
    if (reaches(problem, axis, tap, residue)) return tap;
  }
  return -1;
}

}  // namespace

bool neighbours_reach_all(const Problem& problem, std::size_t axis, int64_t first_tap) {
  const int64_t stride = problem.stride[axis];
  if (first_tap + stride > problem.kernel_size[axis]) return false;
  const int64_t outputs = problem.output_size(static_cast<int>(axis));
  for (int64_t residue = 0; residue < stride && residue < outputs; ++residue) {
    bool is_reached = false;
    for (int64_t tap = first_tap; tap < first_tap + stride; ++tap) {
      is_reached = is_reached || reaches(problem, axis, tap, residue);
    }
    if (!is_reached) return false;
  }
  return true;
}

std::optional<int64_t> first_bias_tap(const Problem& problem, std::size_t axis) {
  for (int64_t tap = 0; tap < problem.kernel_size[axis]; ++tap) {
    if (neighbours_reach_all(problem, axis, tap)) return tap;
  }
  return std::nullopt;
}

std::optional<BiasTaps> bias_taps(const Problem& problem) {
  BiasTaps taps{};
  for (std::size_t i = 0; i < 3; ++i) {
    if (problem.kernel_size[i] > kMostBiasTaps) return std::nullopt;
    const int64_t outputs = problem.output_size(static_cast<int>(i));
    for (int64_t residue = 0; residue < problem.stride[i] && residue < outputs; ++residue) {
      const int64_t tap = tap_of(problem, i, residue);
      if (tap < 0) return std::nullopt;
      taps[i] |= uint32_t{1} << tap;
    }
  }
  return taps;
}

}  // namespace convt3d
