// How the channels of a weight [C_in, C_out/groups, kD, kH, kW] are those of a product.
#pragma once

#include <array>
#include <cstdint>

#include "core/call.h"
#include "core/problem.h"

namespace convt3d {

// Which are summed (K); the others are written (N).
enum class WeightOrder { kInputIsK, kOutputIsK };

// In elements, of one group of the problem, one K channel, one N channel and the three taps.
struct WeightStrides {
  int64_t group;
  int64_t k;
  int64_t n;
  int64_t tap[3];
};

inline WeightStrides weight_strides(const Problem& problem, const ConstTensor& weight, WeightOrder order) {
  const bool input_is_k = order == WeightOrder::kInputIsK;
  const std::array<int64_t, 5>& stride = weight.stride;
  return {problem.in_channels_per_group() * stride[0],
          stride[input_is_k ? 0 : 1],
          stride[input_is_k ? 1 : 0],
          {stride[2], stride[3], stride[4]}};
}

}  // namespace convt3d
