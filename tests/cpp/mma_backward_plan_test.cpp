// Plans of all gradients from one read of grad_output: each of its elements is read once, and every plan fits the
// device that it is for. Built by tests/test_plan.py with a plain C++ compiler: no torch, no CUDA.
#include "core/devices.h"
#include "engines/mma/backward/plan.h"
#include "engines/mma/correlation/memory.h"
#include "weight_grad_checks.h"

#include <cstdio>
#include <random>
#include <vector>

using namespace convt3d;
using namespace convt3d::mma;

namespace {

// The sum for the bias takes every element of grad_output once.
void check_parts(const Problem& problem) {
  for (int axis = 0; axis < 3; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    std::vector<int> readers(static_cast<std::size_t>(problem.output_size(axis)), 0);
    for (const Term& term : defined_terms(turned(problem, a))) ++readers[static_cast<std::size_t>(std::get<2>(term))];
    for (const int count : readers) expect(count == 1, "an output belongs to one tap", problem);
  }
}

void check_backward(const Problem& problem, const BackwardPlan& plan, const DeviceTraits& limits) {
  const WeightGradPlan& grad = plan.grad;
  const ShapeExtent extent = shape_extent(plan.input.shape, grad.terms);
  const bool pairs = grad.pairs.exist;  // positions and taps along the width are those of words
  check_plan(pairs ? paired_weight_grad(problem)->problem : problem, grad, limits,
             backward_rows(plan.input.shape, grad.terms));
  expect(grad.part_count() == 1 && grad.row_chunks == 1 && grad.n_chunks == 1 && grad.warps_groups == 1,
         "a block has all of a group", problem);
  expect(grad.columns == backward_columns(plan.input.shape, grad.terms), "the kernel's columns", problem);
  expect(extent.warps() == kInputWarps && extent.n() >= grad.n_channels && plan.input.n_blocks == 1,
         "a tile has all channels of a group", problem);
  const int64_t positions = int64_t{grad.images} * grad.box[0] * grad.box[1] * grad.box[2];
  expect((pairs ? 2 : 1) * positions <= extent.m(), "a tile has all positions of a box", problem);
  expect(plan.channel_steps * kStepBytes >= grad.row_channels * grad.element_bytes &&
             grad.grad.pieces * kPieceBytes == plan.channel_steps * kStepBytes &&
             plan.channel_steps * kStepBytes >= grad.row_chunk * grad.element_bytes,
         "rows are whole steps", problem);

  const BackwardLayout& layout = plan.layout;
  for (const int32_t place : {layout.offsets, layout.steps, layout.bias, layout.staging, layout.weights}) {
    expect(place % 16 == 0, "what is read by 16 bytes is aligned", problem);
  }
  // float32 of each row and warp along K, where the warps that multiply sum rows.
  const bool sums_rows = grad.bias == mma::BiasSums::kMultiplyingWarps;
  expect(sums_rows == (grad.has_bias() && grad.terms == 1), "rows of one term are summed where they are multiplied",
         problem);
  const int64_t bias_bytes = sums_rows ? 32 * grad.most_eights() * grad.warps_k : 0;
  expect(layout.offsets - layout.share >= kShareBytes &&
             layout.steps - layout.offsets >= 8 * extent.warps() * extent.warp_m &&
             layout.bias - layout.steps >= 4 * (plan.k_steps() + 1) && layout.staging - layout.bias >= bias_bytes &&
             layout.weights - layout.staging >= plan.input.staging_bytes &&
             layout.bytes - layout.weights >= plan.k_steps() * step_bytes(extent, grad.terms) &&
             grad.layout.barriers >= layout.bytes,
         "shared memory is nobody else's", problem);
  expect(plan.input.packed_bytes == grad.groups * plan.k_steps() * step_bytes(extent, grad.terms),
         "the packed weight is that of all groups", problem);
  expect(plan.partial_offset() >= plan.input.packed_bytes &&
             plan.workspace_bytes() >= plan.partial_offset() + grad.workspace_bytes() &&
             plan.workspace_bytes() <= int64_t{96} << 20,
         "the workspace", problem);
}

int check_problem(const Problem& problem) {
  int plans = 0;
  check_parts(problem);
  for (const int64_t kilobytes : {99, 163, 227}) {
    for (const int64_t multiprocessors : {1, 84, 132}) {
      DeviceTraits limits = fitted_device();
      limits.shared_bytes = static_cast<int32_t>(kilobytes * 1024);
      limits.multiprocessors = static_cast<int32_t>(multiprocessors);
      for (const bool channels_last : {false, true}) {
        Operands operands = dense_operands(problem, channels_last);
        std::swap(operands.first, operands.result);
        operands.second = operands.result;
        for (const auto& [type, terms] :
             {std::pair{DataType::kFloat32, 1}, {DataType::kFloat32, 2}, {DataType::kBFloat16, 1}}) {
          for (const bool masked : {false, true}) {
            if (masked) operands.mask = operands.first;
            const std::vector<BackwardPlan> found =
                backward_candidates(problem, type, terms, operands, masked != channels_last, limits);
            for (const BackwardPlan& plan : found) check_backward(problem, plan, limits);
            for (std::size_t i = 1; i < found.size(); ++i) {
              expect(found[i - 1].cost_ms <= found[i].cost_ms, "the best plan comes first", problem);
            }
            plans += static_cast<int>(found.size());
          }
          operands.mask = {};
        }
      }
    }
  }
  return plans;
}

Problem random_problem(std::mt19937& random) {
  const auto draw = [&](int least, int most) {
    return static_cast<int64_t>(least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1)));
  };
  while (true) {
    Problem problem;
    problem.batch = draw(1, 40);
    problem.groups = draw(0, 2) == 0 ? draw(2, 5) : 1;
    problem.in_channels = problem.groups * draw(1, 64);
    problem.out_channels = problem.groups * draw(1, 40);
    bool exists = true;
    for (std::size_t i = 0; i < 3; ++i) {
      problem.input_size[i] = draw(1, 70);
      problem.kernel_size[i] = problem.stride[i] = draw(1, draw(0, 5) == 0 ? 8 : 2);
      problem.padding[i] = draw(0, 3) == 0 ? draw(1, 4) : 0;
      exists = exists && problem.output_size(static_cast<int>(i)) > 0;
    }
    if (exists) return problem;
  }
}

// What is not for these plans: overlapping taps, and outputs beyond every tap.
void test_other_problems() {
  Problem problem;
  problem.batch = 1;
  problem.in_channels = problem.out_channels = 16;
  problem.input_size = {8, 8, 8};
  problem.kernel_size = problem.stride = {2, 2, 2};
  const auto count = [&](const Problem& of) {
    return backward_candidates(of, DataType::kFloat16, 1, dense_operands(of, true), true, fitted_device()).size();
  };
  expect(count(problem) > 0, "kernel == stride has a plan", problem);
  Problem other = problem;
  other.kernel_size[1] = 3;
  expect(count(other) == 0, "taps that overlap have none", other);
  other = problem;
  other.output_padding[2] = 1;
  expect(count(other) == 0, "outputs beyond every tap have none", other);
  other = problem;
  other.dilation[0] = 2;
  expect(count(other) == 0, "taps that are apart have none", other);
  other = problem;
  other.in_channels = 65;
  expect(count(other) == 0, "more channels than a tile has have none", other);
}

}  // namespace

int main() {
  std::mt19937 random(5);
  int plans = 0;
  for (int i = 0; i < 24; ++i) plans += check_problem(random_problem(random));
  test_other_problems();
  std::printf("%d plans, %d failures\n", plans, failures);
  return failures == 0 && plans > 1000 ? 0 : 1;
}
