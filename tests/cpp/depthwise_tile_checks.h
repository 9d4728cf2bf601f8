// The plans of the depthwise engine's tiles against the operator's definition.
#pragma once

#include <algorithm>
#include <utility>

#include "bias_tap_checks.h"
#include "engines/depthwise/tile_plan.h"
#include "terms.h"

namespace convt3d {

// A box has what the tile's positions read along an axis, and each tile has a box of its own.
inline void check_box(const DepthwiseTilePlan& plan, const Problem& problem, int axis) {
  const DepthwiseBox& box = plan.box[0];
  const auto size =
      static_cast<int32_t>(plan.op == Operator::kForward ? problem.output_size(axis) : problem.input_size[axis]);
  expect(plan.tile[axis] * plan.tiles[axis] >= size && plan.tile[axis] * (plan.tiles[axis] - 1) < size,
         "tiles cover the positions, and none is empty", problem);
  const auto stride = static_cast<int32_t>(problem.stride[axis]);
  const auto padding = static_cast<int32_t>(problem.padding[axis]);
  for (int32_t position = 0; position < size; ++position) {
    const int32_t first = box.first[axis] + position / plan.tile[axis] * box.advance[axis];
    for (int32_t tap = 0; tap < problem.kernel_size[axis]; ++tap) {
      int32_t source = position * stride - padding + tap;
      if (plan.op == Operator::kForward) {
        if ((position + padding - tap) % stride != 0) continue;
        source = (position + padding - tap) / stride;
      }
      expect(source >= first && source < first + box.extent[axis], "a box holds what its tile reads", problem);
    }
  }
}

// With the bias's gradient, where neighbouring taps of each axis have all outputs.
inline void check_tiles_of_bias(const Problem& problem, const Operands& operands) {
  const bool has_all = first_bias_tap(problem, 0) && first_bias_tap(problem, 1) && first_bias_tap(problem, 2);
  const auto plan = plan_depthwise_tiles(Operator::kWeightGrad, problem, DataType::kFloat16, operands, true);
  expect(plan.has_value() == has_all, "tiles have the bias's gradient where neighbouring taps do", problem);
  if (!plan) return;
  for (int axis = 0; axis < 3; ++axis) {
    const int32_t outputs = plan->tile[axis] * plan->stride[axis];
    expect(reach_each_once(problem, axis, neighbouring_taps(problem, axis, plan->bias_first[axis])),
           "outputs are summed once", problem);
    expect(plan->bias_first[axis] + outputs <= plan->box[0].extent[axis], "a box holds what is summed", problem);
  }
  expect(plan->shared_bytes <= kDepthwiseTileBytes, "tiles and sums fit into shared memory", problem);
  expect(plan->bias_offset % 2 == 0 && (plan->bias_offset + 2 * kDepthwiseTileThreads) * 4 <= plan->shared_bytes,
         "doubles are aligned", problem);
}

inline void check_depthwise_tiles(const Problem& any, int channels) {
  Problem problem = any;
  problem.groups = problem.in_channels = problem.out_channels = channels;
  bool taken = true;
  for (int i = 0; i < 3; ++i) {
    taken = taken && problem.stride[i] <= 2 && problem.kernel_size[i] <= kDepthwiseMaxTaps &&
            (problem.dilation[i] == 1 || problem.kernel_size[i] == 1);
  }
  for (const Operator op : {Operator::kForward, Operator::kInputGrad, Operator::kWeightGrad}) {
    for (const bool channels_last : {false, true}) {
      Operands operands = dense_operands(problem, channels_last);
      if (op != Operator::kForward) std::swap(operands.first, operands.result);
      if (op == Operator::kWeightGrad) std::swap(operands.second, operands.result);
      expect(!plan_depthwise_tiles(op, problem, DataType::kFloat64, operands, false), "float64 has no tiles", problem);
      const auto plan = plan_depthwise_tiles(op, problem, DataType::kFloat16, operands, false);
      expect(plan.has_value() == taken, "tiles are for strides up to 2 and kernels up to 7", problem);
      if (!plan) continue;
      const OperandTraits& owner = op == Operator::kWeightGrad ? operands.second : operands.result;
      expect(plan->by_channels == (owner.stride[1] == 1 && channels > 1), "threads lie as the tensor does", problem);
      expect(plan->shared_bytes <= kDepthwiseTileBytes, "tiles fit into shared memory", problem);
      expect(plan->channel_tiles * plan->tile_channels >= channels, "tiles cover the channels", problem);
      for (int axis = 0; axis < 3; ++axis) check_box(*plan, problem, axis);
      if (op != Operator::kWeightGrad) {
        expect(plan->tile[1] % depthwise_run_length(plan->run) == 0, "a tile has whole runs", problem);
        expect(plan->workspace_bytes() == 0, "a correlation needs no workspace", problem);
        continue;
      }
      expect(int64_t{plan->splits} * plan->split_tiles >= plan->positions() &&
                 int64_t{plan->splits - 1} * plan->split_tiles < plan->positions(),
             "splits cover the tiles, and none is empty", problem);
      expect(plan->blocks() <= std::max(1024, plan->channel_tiles), "partial sums are few", problem);
      check_tiles_of_bias(problem, operands);
    }
  }
}

// Partial sums take as much memory whatever the batch is.
inline void check_depthwise_workspace() {
  Problem problem;
  problem.groups = problem.in_channels = problem.out_channels = 96;
  problem.input_size = {32, 40, 48};
  problem.kernel_size = {7, 7, 7};
  problem.padding = {3, 3, 3};
  for (const bool channels_last : {false, true}) {
    for (const int batch : {1, 4, 64, 1000}) {
      problem.batch = batch;
      Operands operands = dense_operands(problem, channels_last);
      std::swap(operands.first, operands.result);
      std::swap(operands.second, operands.result);
      const auto plan = plan_depthwise_tiles(Operator::kWeightGrad, problem, DataType::kFloat32, operands, false);
      expect(plan && plan->workspace_bytes() <= 16 << 20, "the workspace is bounded", problem);
    }
  }
}

}  // namespace convt3d
