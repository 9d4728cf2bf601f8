#include "engines/wgmma/plan/input_grad.h"

#include <utility>

namespace convt3d {

std::optional<Problem> input_grad_as_forward(const Problem& problem) {
  Problem forward = problem;
  std::swap(forward.in_channels, forward.out_channels);
  forward.input_size = problem.output_size();
  for (size_t i = 0; i < 3; ++i) {
    forward.padding[i] = problem.dilation[i] * (problem.kernel_size[i] - 1) - problem.padding[i];
    if (problem.stride[i] != 1 || problem.output_padding[i] != 0 || forward.padding[i] < 0) return std::nullopt;
  }
  if (problem.groups != 1) return std::nullopt;
  return forward;
}

ConstTensor input_grad_weight(const Problem& problem, const ConstTensor& weight, int64_t element_bytes) {
  int64_t last_tap = 0;
  ConstTensor view = weight;
  std::swap(view.stride[0], view.stride[1]);
  for (size_t i = 0; i < 3; ++i) {
    last_tap += (problem.kernel_size[i] - 1) * weight.stride[2 + i];
    view.stride[2 + i] = -weight.stride[2 + i];
  }
  view.data = static_cast<const unsigned char*>(weight.data) + last_tap * element_bytes;
  return view;
}

}  // namespace convt3d
