#include "engines/wgmma/plan/problem.h"

namespace convt3d {

WgmmaProblem wgmma_forward(const Problem& problem) {
  return {problem.batch,
          problem.groups,
          problem.in_channels,
          problem.out_channels,
          problem.input_size,
          problem.output_size(),
          {forward_axis(problem, 0), forward_axis(problem, 1), forward_axis(problem, 2)}};
}

WgmmaProblem wgmma_input_grad(const Problem& problem) {
  return {problem.batch,
          problem.groups,
          problem.out_channels,
          problem.in_channels,
          problem.output_size(),
          problem.input_size,
          {input_grad_axis(problem, 0), input_grad_axis(problem, 1), input_grad_axis(problem, 2)}};
}

WgmmaWeightStrides forward_weight(const Problem& problem, const std::array<int64_t, 5>& stride) {
  return {problem.in_channels_per_group() * stride[0], stride[0], stride[1]};
}

WgmmaWeightStrides input_grad_weight(const Problem& problem, const std::array<int64_t, 5>& stride) {
  return {problem.in_channels_per_group() * stride[0], stride[1], stride[0]};
}

}  // namespace convt3d
