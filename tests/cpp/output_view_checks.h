// The outputs that taps meet, as a view, against the operator's definition.
#pragma once

#include <set>

#include "core/output_view.h"
#include "terms.h"

namespace convt3d {

// Along axis 0: the view's problem has the layer's terms, each output by its number in the view.
inline void check_read_outputs(const Problem& problem) {
  const std::set<Term> terms = defined_terms(problem);
  std::set<int> met;
  for (const auto& [i, k, o] : terms) met.insert(o);
  const std::optional<OutputView> view = read_outputs(problem, true);
  if (!view) return;
  const auto first = static_cast<int>(view->first[0]);
  const auto step = static_cast<int>(view->step[0]);
  std::set<Term> of_view;
  for (const auto& [i, k, u] : defined_terms(view->problem)) of_view.insert({i, k, first + step * u});
  expect(of_view == terms, "a view has the terms of the layer", problem);
  const int64_t size = problem.output_size(0);
  const int64_t viewed_size = view->problem.output_size(0);
  expect(first + (viewed_size - 1) * step < size && first + viewed_size * step >= size,
         "a view has every so many-th output", problem);
  expect(!read_outputs(view->problem, true), "a view is not viewed", problem);
}

inline Problem patches(int64_t out_channels, const Int3& kernel) {
  Problem problem;
  problem.batch = 2;
  problem.in_channels = 5;
  problem.out_channels = out_channels;
  problem.input_size = {3, 4, 6};
  problem.kernel_size = problem.stride = kernel;
  return problem;
}

// Patches of one channel: each tap of the width is a channel, at its place in memory.
inline void check_taps_as_channels() {
  const Problem problem = patches(1, {2, 3, 4});
  const std::optional<OutputView> view = read_outputs(problem, true);
  expect(view && view->width_channels && view->problem.out_channels == 4, "taps of the width are channels", problem);
  if (!view) return;
  expect(view->problem.kernel_size == Int3{2, 3, 1} && view->problem.stride == Int3{2, 3, 1} &&
             view->problem.output_size() == Int3{6, 12, 6},
         "the view's layer has none along the width", problem);
  const OperandTraits tensor = viewed(*view, dense_operand(1, problem.output_size(), false), 2);
  expect(tensor.stride[1] == 1 && tensor.stride[4] == 4 && tensor.stride[3] == 24, "a channel is a tap", problem);
  const ConstTensor weight = viewed_weight(*view, ConstTensor{nullptr, {24, 24, 12, 4, 1}});
  expect(weight.stride[1] == 1 && weight.stride[0] == 24, "of the weight, too", problem);
  for (const int change : {0, 1, 2, 3}) {
    Problem other = problem;
    if (change == 0) other.out_channels = 2;
    if (change == 1) other.padding[2] = 1;
    if (change == 2) other.output_padding[2] = 1;
    if (change == 3) other.kernel_size[2] = 3;
    expect(!read_outputs(other, true), "taps are channels of such layers alone", problem);
  }
}

// With the channels last: a tap's channels follow the ones of the tap before, in grad_output and in the weight.
inline void check_taps_beside_channels() {
  Problem problem = patches(4, {2, 3, 2});
  Operands gradient;
  gradient.first = dense_operand(4, problem.output_size(), true);
  const std::optional<OutputView> view = joined_outputs(problem, gradient, 2);
  expect(view && view->width_channels && view->problem.out_channels == 8, "taps join other channels", problem);
  if (!view) return;
  expect(view->joins_weight() && view->channel_folds() == 2 && view->has_all_outputs(), "two of each channel", problem);
  const OperandTraits tensor = viewed(*view, gradient.first, 2);
  const ConstTensor weight{nullptr, {48, 1, 24, 8, 4}};
  const ConstTensor viewed_of_weight = viewed_weight(*view, weight);
  for (int64_t c = 0; c < 4; ++c) {
    for (int64_t w = 0; w < problem.output_size(2); ++w) {
      const int64_t channel = w % 2 * 4 + c;
      expect(tensor.stride[1] * channel + tensor.stride[4] * (w / 2) ==
                 gradient.first.stride[1] * c + gradient.first.stride[4] * w,
             "each element is where it was", problem);
      expect(viewed_of_weight.stride[1] * channel == weight.stride[1] * c + weight.stride[4] * (w % 2),
             "of the weight, too", problem);
    }
  }
  for (const int change : {0, 1, 2, 3, 4, 5, 6}) {
    Problem other = problem;
    if (change == 0) other.out_channels = 32;
    if (change == 1) other.padding[2] = 1;
    if (change == 2) other.output_padding[2] = 1;
    if (change == 3) other.kernel_size[2] = 3;
    if (change == 4) other.groups = 2;
    Operands operands;
    operands.first = dense_operand(other.out_channels, other.output_size(), change != 5);
    if (change == 6) operands.mask = dense_operand(other.out_channels, other.output_size(), false);
    expect(!joined_outputs(other, operands, 2), "taps join channels in such calls alone", problem);
  }
  problem.kernel_size[0] = 1;
  gradient.first = dense_operand(4, problem.output_size(), true);
  const std::optional<OutputView> part = joined_outputs(problem, gradient, 2);
  expect(part && part->step[0] == 2 && !part->has_all_outputs(), "outputs that no tap meets are not in the view",
         problem);
}

}  // namespace convt3d
