// What the wgmma engine computes, a forward or an input gradient, as one: sums over taps of a tensor that is read. In
// its plans and kernels the input is that tensor, the output is what is written; of an input gradient these are
// grad_output and grad_input.
#pragma once

#include <array>
#include <cstdint>

#include "core/phase_map.h"
#include "core/problem.h"

namespace convt3d {

struct WgmmaProblem {
  int64_t batch;
  int64_t groups;
  int64_t in_channels;
  int64_t out_channels;
  Int3 input_size;
  Int3 output_size;
  std::array<AxisMap, 3> axis;  // which taps meet which positions

  int64_t in_channels_per_group() const { return in_channels / groups; }
  int64_t out_channels_per_group() const { return out_channels / groups; }
};

WgmmaProblem wgmma_forward(const Problem& problem);
WgmmaProblem wgmma_input_grad(const Problem& problem);

// Where the weights of such a problem are, in elements.
struct WgmmaWeightStrides {
  int64_t group;
  int64_t in_channel;   // of a group
  int64_t out_channel;  // of a group
};

// `stride`: of weight[C_in, C_out/groups, kD, kH, kW].
WgmmaWeightStrides forward_weight(const Problem& problem, const std::array<int64_t, 5>& stride);
WgmmaWeightStrides input_grad_weight(const Problem& problem, const std::array<int64_t, 5>& stride);

}  // namespace convt3d
