#include "check/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace check {
namespace {

using convt3d::Int3;
using convt3d::Problem;

// The inputs whose product with a tap is an output: [first, last).
struct Reach {
  int64_t first;
  int64_t last;
};

Reach reach_of(const Problem& problem, std::size_t axis, int64_t tap) {
  const int64_t output = problem.output_size(static_cast<int>(axis));
  const int64_t origin = tap * problem.dilation[axis] - problem.padding[axis];  // output of input 0
  const int64_t stride = problem.stride[axis];
  const int64_t first = origin >= 0 ? 0 : (-origin + stride - 1) / stride;
  const int64_t last = output > origin ? (output - origin + stride - 1) / stride : 0;
  return {first, std::min(problem.input_size[axis], last)};
}

// Calls `visit(input, weight, output, count, output_step)` for rows along the width: `count` inputs from index `input`
// on meet one weight, in outputs `output_step` apart.
template <typename Visit>
void for_each_row(const Problem& problem, Visit&& visit) {
  const Int3& in = problem.input_size;
  const Int3 out = problem.output_size();
  const Int3& kernel = problem.kernel_size;
  const int64_t group_outputs = problem.out_channels_per_group();
  const int64_t taps = problem.taps();
  for (int64_t tap = 0; tap < taps; ++tap) {
    const Int3 at = {tap / (kernel[1] * kernel[2]), tap / kernel[2] % kernel[1], tap % kernel[2]};
    const Reach depths = reach_of(problem, 0, at[0]);
    const Reach heights = reach_of(problem, 1, at[1]);
    const Reach widths = reach_of(problem, 2, at[2]);
    const int64_t count = widths.last - widths.first;
    if (count <= 0) continue;
    const int64_t out_w = widths.first * problem.stride[2] - problem.padding[2] + at[2] * problem.dilation[2];
    for (int64_t n = 0; n < problem.batch; ++n) {
      for (int64_t ci = 0; ci < problem.in_channels; ++ci) {
        const int64_t group = ci / problem.in_channels_per_group();
        for (int64_t co = 0; co < group_outputs; ++co) {
          const int64_t in_volume = (n * problem.in_channels + ci) * in[0];
          const int64_t out_volume = (n * problem.out_channels + group * group_outputs + co) * out[0];
          for (int64_t d = depths.first; d < depths.last; ++d) {
            const int64_t out_d = d * problem.stride[0] - problem.padding[0] + at[0] * problem.dilation[0];
            for (int64_t h = heights.first; h < heights.last; ++h) {
              const int64_t out_h = h * problem.stride[1] - problem.padding[1] + at[1] * problem.dilation[1];
              visit(((in_volume + d) * in[1] + h) * in[2] + widths.first, (ci * group_outputs + co) * taps + tap,
                    ((out_volume + out_d) * out[1] + out_h) * out[2] + out_w, count);
            }
          }
        }
      }
    }
  }
}

Expected zeros(int64_t elements, double terms) {
  const auto count = static_cast<std::size_t>(elements);
  return {std::vector<double>(count, 0.0), std::vector<double>(count, 0.0), terms};
}

void add(Expected& expected, int64_t index, double term) {
  expected.value[static_cast<std::size_t>(index)] += term;
  expected.magnitude[static_cast<std::size_t>(index)] += std::fabs(term);
}

int64_t volume(const Int3& size) { return size[0] * size[1] * size[2]; }

}  // namespace

Expected expected_output(const Case& item, const std::vector<double>& input, const std::vector<double>& weight,
                         const std::vector<double>& bias) {
  const Problem& problem = item.problem;
  const int64_t elements = volume(problem.output_size());
  Expected expected = zeros(problem.batch * problem.out_channels * elements,
                            static_cast<double>(problem.in_channels_per_group() * problem.taps()));
  const int64_t step = problem.stride[2];
  for_each_row(problem, [&](int64_t in, int64_t tap, int64_t out, int64_t count) {
    const double w = weight[static_cast<std::size_t>(tap)];
    for (int64_t i = 0; i < count; ++i) add(expected, out + i * step, input[static_cast<std::size_t>(in + i)] * w);
  });
  for (std::size_t i = 0; i < expected.value.size(); ++i) {
    const auto channel = static_cast<std::size_t>(static_cast<int64_t>(i) / elements % problem.out_channels);
    if (item.bias) add(expected, static_cast<int64_t>(i), bias[channel]);
    if (item.relu) expected.value[i] = std::max(expected.value[i], 0.0);
  }
  return expected;
}

Expected expected_input_grad(const Case& item, const std::vector<double>& grad, const std::vector<double>& weight) {
  const Problem& problem = item.problem;
  Expected expected = zeros(problem.batch * problem.in_channels * volume(problem.input_size),
                            static_cast<double>(problem.out_channels_per_group() * problem.taps()));
  const int64_t step = problem.stride[2];
  for_each_row(problem, [&](int64_t in, int64_t tap, int64_t out, int64_t count) {
    const double w = weight[static_cast<std::size_t>(tap)];
    for (int64_t i = 0; i < count; ++i) add(expected, in + i, grad[static_cast<std::size_t>(out + i * step)] * w);
  });
  return expected;
}

Expected expected_weight_grad(const Case& item, const std::vector<double>& grad, const std::vector<double>& input) {
  const Problem& problem = item.problem;
  Expected expected = zeros(problem.in_channels * problem.out_channels_per_group() * problem.taps(),
                            static_cast<double>(problem.batch * volume(problem.input_size)));
  const int64_t step = problem.stride[2];
  for_each_row(problem, [&](int64_t in, int64_t tap, int64_t out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      add(expected, tap, grad[static_cast<std::size_t>(out + i * step)] * input[static_cast<std::size_t>(in + i)]);
    }
  });
  return expected;
}

Expected expected_bias_grad(const Case& item, const std::vector<double>& grad) {
  const Problem& problem = item.problem;
  const int64_t elements = volume(problem.output_size());
  Expected expected = zeros(problem.out_channels, static_cast<double>(problem.batch * elements));
  // In more digits than the kernels': of equal numbers, such as an expanded gradient's, errors all have one sign.
  std::vector<long double> sums(expected.value.size());
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const auto channel = static_cast<std::size_t>(static_cast<int64_t>(i) / elements % problem.out_channels);
    sums[channel] += grad[i];
    expected.magnitude[channel] += std::fabs(grad[i]);
  }
  for (std::size_t channel = 0; channel < sums.size(); ++channel) {
    expected.value[channel] = static_cast<double>(sums[channel]);
  }
  return expected;
}

double rounded_to_tf32(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);  // [0.5, 1)
  return std::ldexp(std::round(std::ldexp(mantissa, 11)), exponent - 11);
}

}  // namespace check
