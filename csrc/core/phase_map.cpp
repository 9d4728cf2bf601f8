#include "core/phase_map.h"

#include <algorithm>
#include <numeric>

namespace convt3d {
namespace {

AxisMap make_axis(int64_t stride, int64_t padding, int64_t dilation, int64_t taps) {
  const int64_t divisor = std::gcd(stride, dilation);
  AxisMap axis{};
  axis.dst_step = static_cast<int32_t>(stride);
  axis.padding = static_cast<int32_t>(padding);
  axis.dilation = static_cast<int32_t>(dilation);
  axis.taps = static_cast<int32_t>(taps);
  axis.tap_step = static_cast<int32_t>(stride / divisor);
  axis.offset_step = static_cast<int32_t>(-dilation / divisor);
  axis.phases = static_cast<int32_t>(std::min(taps, stride / divisor));
  return axis;
}

}  // namespace

AxisMap forward_axis(const Problem& problem, int axis) {
  AxisMap map =
      make_axis(problem.stride[axis], problem.padding[axis], problem.dilation[axis], problem.kernel_size[axis]);
  map.src_step = 1;
  map.src_size = static_cast<int32_t>(problem.input_size[axis]);
  map.dst_size = static_cast<int32_t>(problem.output_size(axis));
  return map;
}

AxisMap input_grad_axis(const Problem& problem, int axis) {
  AxisMap map = make_axis(1, -problem.padding[axis], -problem.dilation[axis], problem.kernel_size[axis]);
  map.src_step = static_cast<int32_t>(problem.stride[axis]);
  map.src_size = static_cast<int32_t>(problem.output_size(axis));
  map.dst_size = static_cast<int32_t>(problem.input_size[axis]);
  return map;
}

}  // namespace convt3d
