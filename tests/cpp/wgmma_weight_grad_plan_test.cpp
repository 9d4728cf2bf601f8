// Plans of the weight gradient on Hopper's matrix units: what a block visits along each axis is what the operator
// defines, rows that the instructions take together are neighbours, and every plan fits the device. Built by
// tests/test_plan.py with a plain C++ compiler: no torch, no CUDA.
#include "core/devices.h"
#include "core/integer.h"
#include "engines/wgmma/weight_grad/boxes.h"
#include "engines/wgmma/weight_grad/plan.h"
#include "terms.h"

#include <cstdio>
#include <random>
#include <utility>
#include <vector>

using namespace convt3d;

namespace {

// Positions of boxes, taps of parts: by the tile's positions, as the kernel reads them.
void check_axis(const Problem& problem, const WgmmaWeightGradPlan& plan, std::size_t axis) {
  const WgmmaGradTaps& taps = plan.taps[axis];
  std::vector<int> seen(static_cast<std::size_t>(taps.taps), 0);
  bool found = true;
  for (int32_t part = 0; part < taps.parts; ++part) {
    expect(taps.count(part) > 0 && taps.count(part) <= taps.most, "a part has taps", problem);
    for (int32_t j = 0; j < taps.count(part); ++j) {
      const int32_t tap = taps.first(part) + j * taps.residues;
      if (tap >= taps.taps) {
        expect(false, "taps of the kernel", problem);
        continue;
      }
      ++seen[static_cast<std::size_t>(tap)];
      for (int32_t position = 0; position < plan.box[axis]; ++position) {
        const int32_t of_tile = position * taps.rows + j * taps.shift;
        const int64_t read = int64_t{of_tile} * taps.every() + taps.origin(part);
        const int64_t defined = position * problem.stride[axis] - problem.padding[axis] + tap * problem.dilation[axis];
        found = found && read == defined && of_tile < plan.grad.extent[axis];
      }
    }
  }
  expect(found, "a tap's positions are in the tile where it reads", problem);
  for (const int count : seen) expect(count == 1, "each tap is in one part", problem);
  expect(plan.boxes[axis + 1] * plan.box[axis] >= problem.input_size[axis], "all positions are in boxes", problem);
}

void check_rows(const Problem& problem, const WgmmaWeightGradPlan& plan) {
  const int32_t rows = plan.images * plan.box[0] * plan.box[1] * plan.box[2];
  expect(rows == plan.steps * kWgmmaGradStep && plan.steps <= kWgmmaGradMostSteps, "whole steps", problem);
  bool neighbours = true;
  for (int32_t row = 0; row < rows; ++row) {
    const int32_t at = row / plan.images;
    const int32_t w = at % plan.box[2];
    const int32_t h = at / plan.box[2] % plan.box[1];
    const int32_t d = at / plan.box[2] / plan.box[1];
    const int32_t expected =
        ((d * plan.grad.extent[1] + h) * plan.grad.extent[2] + w) * plan.images + row % plan.images;
    neighbours = neighbours && plan.grad_row(row) == expected &&
                 (row % 8 == 0 || plan.grad_row(row) == plan.grad_row(row - 1) + 1);
  }
  expect(neighbours, "eight rows of a step are neighbours in both tiles", problem);
  const int32_t last = plan.grad_row(rows - 1) * kWgmmaGradRowBytes +
                       plan.shift_of(plan.taps[0].most - 1, plan.taps[1].most - 1, plan.outer_panels() - 1) +
                       (plan.instruction.panels - 1) * plan.panel_shift() + kWgmmaGradRowBytes;
  expect(last <= plan.grad.panels * plan.grad.panel_bytes, "the last tap's rows are in the tile", problem);
  expect(plan.grad_row(rows - 1) * (kWgmmaGradRowBytes / 16) < 1 << 16, "rows have entries of the table", problem);
}

// Of operands that are turned: blocks are parts of the box, each position of it is in one step, at one column of K.
void check_blocks(const Problem& problem, const WgmmaWeightGradPlan& plan) {
  const int32_t positions = plan.images * plan.box[0] * plan.box[1] * plan.box[2];
  expect(plan.block_positions() <= kWgmmaTurnedBlock && plan.block_positions() * plan.blocks_of_box() == positions,
         "blocks share out a box", problem);
  expect(plan.steps == plan.blocks_of_box() * plan.block_steps() && plan.steps <= kWgmmaGradMostSteps &&
             plan.steps % 2 == 0 && plan.block_steps() * kWgmmaTurnedStep >= plan.block_positions(),
         "steps are two and two", problem);
  std::vector<int> seen(static_cast<std::size_t>(plan.grad.extent[0]) * static_cast<std::size_t>(plan.grad.extent[1]) *
                            static_cast<std::size_t>(plan.grad.extent[2] * plan.images),
                        0);
  bool columns[kWgmmaTurnedStep] = {};
  for (int32_t k = 0; k < kWgmmaTurnedStep; ++k) columns[plan.row_of_k(k)] = true;
  for (const bool column : columns) expect(column, "each row of a step has a column of K", problem);
  for (int32_t block = 0; block < plan.blocks_of_box(); ++block) {
    for (int32_t position = 0; position < plan.block_positions(); ++position) {
      ++seen[static_cast<std::size_t>(plan.turned_row(block, position))];
    }
  }
  bool once = true;
  for (int32_t row = 0; row < positions; ++row) once = once && seen[static_cast<std::size_t>(plan.grad_row(row))] == 1;
  expect(once, "each position of a box is in one block", problem);
  const int32_t last = plan.grad_row(positions - 1) +
                       plan.shift_of(plan.taps[0].most - 1, plan.taps[1].most - 1, 0) / kWgmmaGradRowBytes +
                       (plan.taps[2].most - 1) * plan.taps[2].shift * plan.images;
  expect((last + 1) * kWgmmaGradRowBytes <= plan.grad.panel_bytes && last < 1 << 15,
         "the last tap's rows are in the tile, and have entries of the table", problem);
  for (int32_t position = 0; plan.instruction.widths > 1 && position < plan.block_positions(); position += 2) {
    expect(plan.turned_row(0, position) + 1 == plan.turned_row(0, position + 1) && plan.pairs_of_rows == 1,
           "neighbouring taps share rows", problem);
  }
  expect(turned_fits(plan.instruction, plan.terms), "there are registers", problem);
}

int check_problem(const Problem& problem, DataType type, int32_t terms, const DeviceTraits& device, bool sums_bias) {
  Operands operands;
  operands.first = dense_operand(problem.out_channels, problem.output_size(), true);
  operands.second = dense_operand(problem.in_channels, problem.input_size, true);
  const std::vector<WgmmaWeightGradPlan> plans =
      wgmma_weight_grad_candidates(problem, type, terms, operands, device, sums_bias);
  for (const WgmmaWeightGradPlan& plan : plans) {
    for (std::size_t axis = 0; axis < 3; ++axis) check_axis(problem, plan, axis);
    expect(plan.turned() == (type == DataType::kFloat32) && plan.terms == terms, "operands have a form", problem);
    if (plan.turned()) {
      check_blocks(problem, plan);
    } else {
      check_rows(problem, plan);
    }
    expect(plan.shared_bytes() <= device.shared_bytes && plan.stages >= 2, "boxes fit shared memory", problem);
    for (TensorBox box :
         {input_box(problem, plan, operands.second.stride), grad_box(problem, plan, operands.first.stride)}) {
      box.data = nullptr;
      expect(describable(box), "TMA can describe boxes", problem);
    }
    const int32_t most = plan.columns_of_sets(plan.taps[0].most, plan.taps[1].most, plan.taps[2].most);
    expect(ceil_div(most, plan.shares_columns() ? 2 : 1) * plan.instruction.widths == plan.instruction.sets,
           "all columns have accumulators", problem);
    expect(int64_t{plan.m_chunks} * plan.chunk_rows() >= plan.m_channels() &&
               int64_t{plan.n_chunks} * plan.chunk_columns() >= plan.n_channels(),
           "all channels are in chunks", problem);
    expect(
        plan.splits * plan.split_boxes >= plan.box_count() && (plan.splits - 1) * plan.split_boxes < plan.box_count(),
        "each split has boxes, and all boxes are in splits", problem);
    expect(plan.has_bias() == sums_bias, "the bias's gradient is in rows where it is wanted", problem);
    expect(plan.workspace_bytes() >= plan.bias_offset() * (sums_bias ? 1 : 0) +
                                         (sums_bias ? 4 * plan.bias_partials() * problem.out_channels : 0),
           "sums of the bias have room", problem);
  }
  for (std::size_t i = 1; i < plans.size(); ++i) {
    expect(plans[i - 1].cost_ms <= plans[i].cost_ms, "the best plan comes first", problem);
  }
  return static_cast<int>(plans.size());
}

Problem random_problem(std::mt19937& random) {
  const auto draw = [&](int least, int most) {
    return static_cast<int64_t>(least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1)));
  };
  while (true) {
    Problem problem;
    problem.batch = draw(1, 40);
    problem.groups = draw(0, 3) == 0 ? 2 : 1;
    problem.in_channels = problem.groups * 8 * draw(4, 40);
    problem.out_channels = problem.groups * 8 * draw(4, 40);
    bool exists = true;
    for (std::size_t i = 0; i < 3; ++i) {
      problem.input_size[i] = draw(1, 40);
      problem.kernel_size[i] = draw(0, 9) == 0 ? draw(8, 33) : draw(1, 7);
      problem.stride[i] = draw(1, draw(0, 3) == 0 ? 8 : 3);
      problem.dilation[i] = draw(0, 3) == 0 ? draw(2, 9) : 1;
      problem.padding[i] = draw(0, 6);
      problem.output_padding[i] = draw(0, static_cast<int>(problem.stride[i]) - 1);
      exists = exists && problem.output_size(static_cast<int>(i)) > 0;
    }
    if (exists) return problem;
  }
}

// Problems and operands that are left to others.
void check_refused() {
  std::mt19937 random(3);
  const Problem problem = random_problem(random);
  const DeviceTraits& device = device_of_capability(9, 0).traits;
  Operands operands;
  operands.first = dense_operand(problem.out_channels, problem.output_size(), true);
  operands.second = dense_operand(problem.in_channels, problem.input_size, true);
  const auto has_plan = [&](const Problem& of, DataType type, const Operands& with) {
    return plan_wgmma_weight_grad(of, type, 1, with, device).has_value();
  };
  expect(has_plan(problem, DataType::kFloat16, operands), "contiguous channels have a plan", problem);
  expect(has_plan(problem, DataType::kFloat32, operands), "32 bits have one", problem);
  expect(!has_plan(problem, DataType::kFloat64, operands), "64 bits have none", problem);
  Operands masked = operands;
  masked.mask = operands.first;
  expect(!has_plan(problem, DataType::kFloat16, masked), "a mask has none", problem);
  Operands apart = operands;
  apart.second = dense_operand(problem.in_channels, problem.input_size, false);
  expect(!has_plan(problem, DataType::kFloat16, apart), "a contiguous width has none", problem);
  Operands odd = operands;
  odd.first.address = 2;
  expect(!has_plan(problem, DataType::kFloat16, odd), "an odd address has none", problem);
  Problem far = problem;
  far.stride = {9, 1, 1};
  expect(!has_plan(far, DataType::kFloat16, operands), "steps past TMA's have none", far);
  Problem grouped = problem;
  grouped.groups = 2;
  grouped.in_channels = 80;
  grouped.out_channels = 2 * 36;
  operands.first = dense_operand(grouped.out_channels, grouped.output_size(), true);
  operands.second = dense_operand(grouped.in_channels, grouped.input_size, true);
  expect(!has_plan(grouped, DataType::kFloat16, operands), "groups that begin within a piece have none", grouped);
  grouped.out_channels = 2 * 40;
  operands.first = dense_operand(grouped.out_channels, grouped.output_size(), true);
  expect(has_plan(grouped, DataType::kFloat16, operands), "groups of whole pieces have one", grouped);
}

}  // namespace

int main() {
  std::mt19937 random(11);
  int plans = 0;
  int with_bias = 0;
  for (int i = 0; i < 300; ++i) {
    DeviceTraits device = fitted_device();
    device.multiprocessors = i % 3 == 0 ? 4 : 132;
    const Problem problem = random_problem(random);
    constexpr std::pair<DataType, int32_t> kElements[] = {
        {DataType::kBFloat16, 1}, {DataType::kFloat32, 1}, {DataType::kFloat32, 2}};
    const auto& [type, terms] = kElements[i / 3 % 3];
    plans += check_problem(problem, type, terms, device, false);
    with_bias += check_problem(problem, type, terms, device, true);
  }
  expect(plans > 1000 && with_bias > 100, "most problems have plans, some with the bias's gradient", {});
  check_refused();
  std::printf("%d plans, %d failures\n", plans + with_bias, failures);
  return failures == 0 ? 0 : 1;
}
