// The plans of the matmul engine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/devices.h"
#include "core/integer.h"
#include "engines/matmul/plan.h"
#include "terms.h"

namespace convt3d {

// Where a column of the weight is in a tensor, from an input channel's or a position's first.
inline int64_t matmul_column_place(const MatmulPlan& plan, const Problem& problem, const OperandTraits& tensor,
                                   int64_t column) {
  const int64_t channels = problem.out_channels_per_group();
  const int64_t taps = problem.taps();
  const int64_t channel = plan.channels_last ? column % channels : column / taps;
  int64_t tap = plan.channels_last ? column / channels : column % taps;
  const int64_t w = tap % plan.taps[2];
  tap /= plan.taps[2];
  const int64_t h = tap % plan.taps[1];
  const int64_t d = tap / plan.taps[1];
  const auto& stride = tensor.stride;
  return channel * stride[1] + d * stride[2] + h * stride[3] + w * stride[4];
}

// Whether the weight's columns are where the order of a plan says and, of a gradient, the pieces that are copied are
// whole and aligned in grad_output.
inline void check_matmul_columns(const MatmulPlan& plan, const Problem& problem, const Operands& operands) {
  const bool is_gradient = plan.op == Operator::kInputGrad;
  const int64_t columns = problem.out_channels_per_group() * problem.taps();
  const int64_t piece = plan.copied_bytes / plan.element_bytes;
  const OperandTraits& grad = operands.first;
  for (int64_t column = 0; column < columns; ++column) {
    if (matmul_column_place(plan, problem, operands.second, column) != column)
      return expect(false, "columns of the weight are neighbours", problem);
    if (!is_gradient) continue;
    const int64_t first = matmul_column_place(plan, problem, grad, column / piece * piece);
    if (matmul_column_place(plan, problem, grad, column) != first + column % piece)
      return expect(false, "what is copied at once are neighbours", problem);
    if ((grad.address + first * plan.element_bytes) % plan.copied_bytes != 0)
      return expect(false, "what is copied at once is aligned", problem);
  }
  if (!is_gradient) return;
  for (size_t axis = 0; axis < 5; ++axis) {
    const int64_t size = axis == 0 ? problem.batch + 1 : axis == 1 ? problem.groups : problem.input_size[axis - 2];
    const int64_t step = axis == 0   ? grad.stride[0]
                         : axis == 1 ? problem.out_channels_per_group() * grad.stride[1]
                                     : problem.stride[axis - 2] * grad.stride[axis];
    expect(size == 1 || step % piece == 0, "each position's first copy is aligned", problem);
  }
}

inline void check_matmul_plan(const MatmulPlan& plan, const Problem& problem, const Operands& operands,
                              const DeviceTraits& device) {
  const MatmulExtent extent = plan.extent();
  const int64_t channels = problem.out_channels_per_group();
  expect(int64_t{plan.m_tiles} * extent.m >= plan.positions && int64_t{plan.m_tiles - 1} * extent.m < plan.positions,
         "tiles cover the positions, and none is empty", problem);
  expect(int64_t{plan.n_tiles} * extent.n >= plan.columns && int64_t{plan.n_tiles - 1} * extent.n < plan.columns,
         "tiles cover the columns, and none is empty", problem);
  expect(plan.walkers >= 1 && plan.walkers <= plan.m_tiles, "no walker is idle", problem);
  const int64_t depth = kMatmulStageBytes / plan.element_bytes;
  expect(plan.k_stages * depth >= plan.k && (plan.k_stages - 1) * depth < plan.k, "stages cover K, and none is empty",
         problem);
  expect(plan.shared_bytes > 0 && plan.shared_bytes <= device.shared_bytes, "a block's tiles fit into shared memory",
         problem);
  const MatmulLayout layout = matmul_layout(plan);
  const int32_t weights = plan.resident ? plan.k_stages : plan.buffers;
  const bool is_gradient = plan.op == Operator::kInputGrad;
  const bool of_positions = plan.store.of_positions;
  const int32_t row = (of_positions ? extent.m / plan.warps().m : extent.n / plan.warps().n) * plan.element_bytes;
  const int32_t rows = of_positions ? kMatmulPartColumns : kMatmulPartPositions;
  expect(layout.result_pitch >= row && layout.slab_bytes >= rows * layout.result_pitch, "a slab's rows do not overlap",
         problem);
  expect(
      layout.result_pitch % std::min(16, plan.store.elements * plan.element_bytes) == 0 && layout.slab_bytes % 16 == 0,
      "a slab's pieces are aligned", problem);
  expect(plan.last_split_stages() >= plan.teams, "each team has a stage, of the last split too", problem);
  expect(plan.last_steps() >= 1 && plan.last_steps() <= kMatmulStageSteps, "the last stage has some of K", problem);
  const int64_t pieces = plan.k_stages * (kMatmulStageBytes / plan.copied_bytes);
  expect(layout.weight >= plan.buffers * layout.source_bytes &&
             layout.result >= layout.weight + weights * layout.weight_bytes &&
             layout.positions >= layout.result + extent.warps * layout.slab_bytes &&
             layout.columns >= layout.positions + 2 * extent.m * 8 &&
             layout.places >= layout.columns + extent.n * (is_gradient ? 8 : 12) &&
             layout.bytes >= layout.places + (is_gradient ? pieces * 4 : 0),
         "what a block stages does not overlap", problem);
  expect(layout.result % 16 == 0 && layout.positions % 16 == 0 && layout.weight % 16 == 0 &&
             (!is_gradient || layout.places % 16 == 0),
         "all of it is aligned", problem);
  const int64_t stored = plan.store.elements;
  if (is_gradient) {
    const auto& [depth_in, height_in, width_in] = problem.input_size;
    const int64_t whole = plan.store.of_positions ? depth_in * height_in * width_in : problem.in_channels_per_group();
    expect(stored == 1 || ((plan.store.of_positions || operands.result.stride[1] == 1) && whole % stored == 0 &&
                           operands.result.address % (stored * plan.element_bytes) == 0),
           "what is stored together are neighbours", problem);
    return;
  }
  const int64_t neighbours = plan.channels_last ? channels : plan.taps[2];
  expect(stored == 1 || (operands.result.stride[plan.channels_last ? 1 : 4] == 1 && neighbours % stored == 0 &&
                         operands.result.address % (stored * plan.element_bytes) == 0),
         "columns that are stored together are neighbours", problem);
}

// The plans of one operator.
inline void check_matmul(Operator op, const Problem& problem, bool is_product, DataType dtype, bool channels_last,
                         int32_t address, const DeviceTraits& device) {
  Operands operands = dense_operands(problem, channels_last);
  if (op == Operator::kInputGrad) std::swap(operands.first, operands.result);
  operands.first.address = operands.result.address = address;
  const std::vector<MatmulPlan> plans = matmul_candidates(op, problem, dtype, 1, operands, device);
  expect(is_product || plans.empty(), "nothing else is one product", problem);
  expect(dtype != DataType::kFloat64 || plans.empty(), "there are no tensor cores for it", problem);
  const bool is_even = op == Operator::kForward || channels_last || dtype == DataType::kFloat32;
  if (is_product && problem.out_channels_per_group() % 8 == 0 && problem.in_channels_per_group() % 16 == 0 &&
      dtype != DataType::kFloat64 && is_even && !(channels_last && address != 0)) {
    expect(!plans.empty(), "a product has a plan", problem);
  }
  for (const MatmulPlan& plan : plans) check_matmul_plan(plan, problem, operands, device);
  if (!plans.empty()) check_matmul_columns(plans[0], problem, operands);
  Operands unknown = operands;
  unknown.second = {};
  expect(matmul_candidates(op, problem, dtype, 1, unknown, device).empty(), "the order of the weight is known",
         problem);
  operands.mask.present = true;
  expect(op == Operator::kForward || matmul_candidates(op, problem, dtype, 1, operands, device).empty(),
         "a mask is not applied", problem);
}

// As many channels as 2 GB of a block's columns of the weight, and more.
inline void check_matmul_of_many_channels() {
  Problem problem;
  problem.batch = 1;
  problem.out_channels = 16;
  problem.input_size = problem.kernel_size = {1, 1, 1};
  const DeviceTraits& device = find_device("NVIDIA H200")->traits;
  for (const int64_t channels : {1 << 20, 1 << 22, 1 << 28, 1 << 30}) {
    problem.in_channels = channels;
    for (const bool channels_last : {false, true}) {
      check_matmul(Operator::kForward, problem, channels < 1 << 21, DataType::kFloat32, channels_last, 0, device);
    }
  }
}

// Whether a problem is one product, and that its plans are right, in both formats and of tensors at odd places.
inline void check_matmul(const Problem& any) {
  Problem problem = any;
  for (const bool one_product : {false, true}) {
    if (one_product) {
      problem.stride = problem.kernel_size;
      problem.padding = problem.output_padding = {0, 0, 0};
      problem.dilation = {1, 1, 1};
      problem.in_channels = problem.groups * 16;
      problem.out_channels = problem.groups * 8;
    }
    bool is_product = true;
    for (size_t i = 0; i < 3; ++i) {
      is_product = is_product && problem.kernel_size[i] == problem.stride[i] && problem.padding[i] == 0 &&
                   problem.output_padding[i] == 0 && (problem.kernel_size[i] == 1 || problem.dilation[i] == 1);
    }
    for (const char* name : {"H200", "GeForce RTX 4090"}) {
      const DeviceTraits& device = find_device(std::string("NVIDIA ") + name)->traits;
      for (const DataType dtype : {DataType::kFloat16, DataType::kFloat32, DataType::kFloat64}) {
        for (const bool channels_last : {false, true}) {
          for (const int32_t address : {0, 4}) {
            for (const Operator op : {Operator::kForward, Operator::kInputGrad}) {
              check_matmul(op, problem, is_product, dtype, channels_last, address, device);
            }
          }
        }
      }
    }
  }
}

}  // namespace convt3d
