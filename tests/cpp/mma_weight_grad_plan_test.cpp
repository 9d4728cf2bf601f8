// Plans of the weight gradient on mma.sync: what a block visits along each axis is what the operator defines, and every
// plan fits the device that it is for. Built by tests/test_plan.py with a plain C++ compiler: no torch, no CUDA.
#include "bias_tap_checks.h"
#include "channels_copy_checks.h"
#include "core/devices.h"
#include "engines/mma/weight_grad/plan.h"
#include "weight_grad_checks.h"

#include <cstdio>
#include <optional>
#include <random>
#include <vector>

using namespace convt3d;
using namespace convt3d::mma;

namespace {

int check_problem(const Problem& problem) {
  int plans = 0;
  for (const int64_t kilobytes : {99, 163, 227}) {
    for (const int64_t multiprocessors : {1, 84, 132}) {
      DeviceTraits limits = fitted_device();
      limits.shared_bytes = static_cast<int32_t>(kilobytes * 1024);
      limits.multiprocessors = static_cast<int32_t>(multiprocessors);
      for (const auto& [type, terms] :
           {std::pair{DataType::kFloat32, 1}, {DataType::kFloat32, 2}, {DataType::kBFloat16, 1}}) {
        for (const GradLayouts& layouts :
             {GradLayouts{LoadWay::kCopy, LoadWay::kCopy, false, RowsBegin::kAnywhere, RowsBegin::kAnywhere},
              GradLayouts{LoadWay::kCopyMasked, LoadWay::kCopy, true, RowsBegin::kAnywhere, RowsBegin::kAnywhere},
              GradLayouts{LoadWay::kCopyParts, LoadWay::kCopyParts, false, RowsBegin::kAnywhere, RowsBegin::kAnywhere,
                          8, 4},
              GradLayouts{LoadWay::kRows, LoadWay::kRows, true, RowsBegin::kWhole, RowsBegin::kAlike},
              GradLayouts{LoadWay::kRows, LoadWay::kRows, false, RowsBegin::kAlike, RowsBegin::kAnywhere},
              GradLayouts{LoadWay::kRows, LoadWay::kChannels, false, RowsBegin::kAnywhere, RowsBegin::kAnywhere},
              GradLayouts{LoadWay::kChannelRows, LoadWay::kChannelRows, false, RowsBegin::kWhole, RowsBegin::kWhole},
              GradLayouts{LoadWay::kChannelRowsMasked, LoadWay::kCopy, true, RowsBegin::kAlike, RowsBegin::kAnywhere},
              GradLayouts{LoadWay::kRows, LoadWay::kChannelRows, false, RowsBegin::kWhole, RowsBegin::kAnywhere}}) {
          if (type != DataType::kFloat32 && (has_channel_rows(layouts.grad) || has_channel_rows(layouts.input)))
            continue;
          const std::vector<WeightGradPlan> found = weight_grad_candidates(problem, type, terms, layouts, limits);
          expect(!found.empty(), "every problem has a plan", problem);
          for (const WeightGradPlan& plan : found)
            check_plan(problem, plan, limits, grad_rows(plan.columns, plan.terms));
          for (std::size_t i = 1; i < found.size(); ++i) {
            expect(found[i - 1].cost_ms <= found[i].cost_ms, "the best plan comes first", problem);
          }
          plans += static_cast<int>(found.size());
        }
      }
    }
  }
  return plans;
}

// Those of a weight gradient that has the bias's.
int check_bias(const Problem& problem) {
  const DeviceTraits& device = device_of_capability(8, 6).traits;
  Operands operands = dense_operands(problem, true);
  std::swap(operands.first, operands.result);
  operands.second = operands.result;
  const std::vector<WeightGradPlan> plans =
      weight_grad_candidates(problem, DataType::kFloat16, 1, operands, device, kMostCopiedBytes, true);
  for (const WeightGradPlan& plan : plans) {
    check_plan(problem, plan, device, grad_rows(plan.columns, plan.terms));
    expect(plan.has_bias() && plan.bias_bytes() >= 4 * plan.splits * problem.out_channels &&
               plan.workspace_bytes() >= plan.bias_offset() + plan.bias_bytes() &&
               plan.bias_offset() >= plan.partial_bytes() && plan.bias == mma::BiasSums::kLoadingWarps &&
               plan.layout.bias_units - plan.layout.bias >= 32 * plan.warps_groups * plan.most_eights() &&
               4 * (plan.layout.bias_fragments - plan.layout.bias_units) >=
                   4 * 4 * kBiasUnitSums * ceil_div(plan.warps_groups * plan.most_fragments(), kBiasRows) &&
               plan.layout.grad_fixed - plan.layout.bias_fragments >=
                   kBiasFragmentBytes * (1 + plan.warps_groups * plan.most_fragments()),
           "sums of the bias have room", problem);
  }
  return static_cast<int>(plans.size());
}

// Plans that copy one operand or both.
int check_copies(const Problem& problem, int64_t most_copied) {
  int copied = 0;
  for (const bool input_last : {false, true}) {
    Operands operands;
    operands.first = dense_operand(problem.out_channels, problem.output_size(), false);
    operands.second = dense_operand(problem.in_channels, problem.input_size, input_last);
    const DeviceTraits& device = device_of_capability(9, 0).traits;
    for (const auto& [type, terms] :
         {std::pair{DataType::kFloat32, 1}, {DataType::kFloat32, 2}, {DataType::kFloat16, 1}}) {
      for (const WeightGradPlan& plan : weight_grad_candidates(problem, type, terms, operands, device, most_copied)) {
        if (!plan.copies_operands()) continue;
        ++copied;
        check_plan(problem, plan, device, grad_rows(plan.columns, plan.terms));
        const BoxCounts counts{plan.boxes, plan.batch, plan.images, plan.box[0]};
        std::set<DepthRead> of_grad;
        std::set<DepthRead> of_input;
        for (const auto& [input, tap, output] : defined_terms(problem)) {
          of_grad.insert({output, input / plan.box[0]});
          of_input.insert({input, input / plan.box[0]});
        }
        check_portions(problem, plan.portions, plan.boxes);
        if (plan.grad_copy.exists) check_copy(problem, plan.grad_copy, operands.first, plan.portions, counts, of_grad);
        if (plan.input_copy.exists)
          check_copy(problem, plan.input_copy, operands.second, plan.portions, counts, of_input);
        check_copied_bytes(problem, {&plan.grad_copy, &plan.input_copy}, counts, most_copied);
        expect(plan.grad_copy_offset() >= plan.partial_bytes() &&
                   plan.input_copy_offset() >= plan.grad_copy_offset() + plan.grad_copy.bytes() &&
                   plan.workspace_bytes() == plan.input_copy_offset() + plan.input_copy.bytes(),
               "the workspace has room for copies", problem);
      }
    }
  }
  return copied;
}

Problem random_problem(std::mt19937& random) {
  const auto draw = [&](int least, int most) {
    return static_cast<int64_t>(least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1)));
  };
  while (true) {
    Problem problem;
    const int64_t groups[] = {1, 1, 2, 4, 12};
    problem.batch = draw(1, 70);
    problem.groups = groups[draw(0, 4)];
    problem.in_channels = problem.groups * draw(1, problem.groups > 1 ? 24 : 200);
    problem.out_channels = problem.groups * draw(1, problem.groups > 1 ? 24 : 200);
    bool exists = true;
    for (std::size_t i = 0; i < 3; ++i) {
      problem.input_size[i] = draw(1, 40);
      problem.kernel_size[i] = draw(0, 9) == 0 ? draw(8, 33) : draw(1, 7);
      problem.stride[i] = draw(1, draw(0, 3) == 0 ? 16 : 3);
      problem.dilation[i] = draw(0, 3) == 0 ? draw(2, 9) : 1;
      problem.padding[i] = draw(0, 6);
      problem.output_padding[i] = draw(0, static_cast<int>(problem.stride[i]) - 1);
      exists = exists && problem.output_size(static_cast<int>(i)) > 0;
    }
    if (exists) return problem;
  }
}

}  // namespace

int main() {
  std::mt19937 random(7);
  int plans = 0;
  for (int i = 0; i < 40; ++i) plans += check_problem(random_problem(random));
  int copied = 0;
  for (int i = 0; i < 150; ++i) {
    const int64_t most_copied[] = {1 << 14, 1 << 20, kMostCopiedBytes};
    copied += check_copies(random_problem(random), most_copied[i % 3]);
  }
  expect(copied > 0, "there are plans that copy", {});
  Problem far;  // steps and taps so wide that a tile has one position
  far.batch = far.in_channels = far.out_channels = 1;
  far.input_size = {3, 2, 5};
  far.kernel_size = {3, 2, 2};
  far.stride = {5000, 1, 40000};
  far.dilation = {20000, 30000, 9};
  plans += check_problem(far);
  int with_bias = 0;
  int summed = 0;
  for (int i = 0; i < 4000; ++i) with_bias += check_bias_taps(random_problem(random)) ? 1 : 0;
  for (int i = 0; i < 60; ++i) summed += check_bias(random_problem(random));
  expect(with_bias > 100 && with_bias < 3900 && summed > 0, "some problems have the bias in rows, others not", {});
  Problem usual = far;
  usual.input_size = {4, 5, 6};
  usual.kernel_size = {3, 3, 4};
  usual.stride = {2, 2, 2};
  usual.padding = usual.dilation = {1, 1, 1};
  usual.output_padding = {1, 0, 0};
  // Outputs 8, 9 and 12: taps 1 and 2, but where tap 0 reaches the last odd one, too.
  expect(bias_taps(usual) == BiasTaps{6, 3, 6}, "the first tap of each residue that reaches all of it", usual);
  std::printf("%d plans, %d failures\n", plans + summed, failures);
  return failures == 0 ? 0 : 1;
}
