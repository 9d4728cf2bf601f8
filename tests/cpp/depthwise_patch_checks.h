// The plans of the depthwise engine's patches.
#pragma once

#include <algorithm>
#include <utility>

#include "bias_tap_checks.h"
#include "core/integer.h"
#include "engines/depthwise/patch_plan.h"
#include "engines/depthwise/tile_plan.h"
#include "terms.h"

namespace convt3d {

inline Operands depthwise_gradient_operands(const Problem& problem, Operator op, bool channels_last) {
  Operands operands = dense_operands(problem, channels_last);
  std::swap(operands.first, operands.result);
  if (op == Operator::kWeightGrad) std::swap(operands.second, operands.result);
  return operands;
}

inline void check_depthwise_patch(const DepthwisePatchPlan& plan, const Problem& problem, bool channels_last) {
  const int64_t channels = problem.groups;
  const bool sums = plan.walks();
  expect((plan.access == DepthwisePatchAccess::kChannels) == (channels_last && channels > 1),
         "threads lie as the tensor does", problem);
  expect(plan.lanes == 1 << plan.lane_shift && plan.lanes <= 32, "lanes are a power of two of a warp's", problem);
  expect(int64_t{plan.channel_tiles} * plan.tile_channels() >= channels &&
             int64_t{plan.channel_tiles - 1} * plan.tile_channels() < channels,
         "tiles cover the channels, and none is empty", problem);
  const int64_t per_item_tile = int64_t{plan.steps} * plan.slots;
  expect(plan.item_tiles * per_item_tile >= plan.items && (plan.item_tiles - 1) * per_item_tile < plan.items,
         "blocks cover the items, and none is empty", problem);
  expect(plan.units[0] == problem.input_size[0], "items cover the depth", problem);
  const int64_t units = int64_t{plan.units[0]} * plan.units[1] * plan.units[2];
  expect(plan.items == (sums ? units * problem.batch : units), "items are numbered without gaps", problem);
  expect(plan.shared_bytes <= kDepthwisePatchBytes, "weights and sums fit into shared memory", problem);
  if (!sums) {
    expect(plan.slots * plan.lanes == plan.threads && plan.threads <= kDepthwisePatchThreads, "threads", problem);
    expect(int64_t{plan.units[1]} * depthwise_patch_height(plan.access) >= problem.input_size[1] &&
               int64_t{plan.units[2]} * plan.patch_width >= problem.input_size[2],
           "patches cover the positions", problem);
    expect(plan.workspace_bytes() == 0, "the input gradient needs no workspace", problem);
    return;
  }
  const int taps = static_cast<int>(problem.kernel_size[1]);
  const bool together = plan.op == Operator::kBackward;
  expect(plan.threads == plan.warps() * 32 &&
             plan.threads <= (together ? kDepthwiseTogetherThreads : depthwise_patch_sum_threads(taps)),
         "threads", problem);
  expect(plan.warps() == plan.parts * (together ? 1 : plan.depth_taps),
         "each warp has a tap of the depth or, of all gradients, all of them", problem);
  expect(plan.slots * plan.lanes == plan.parts * 32, "items of a block at a time", problem);
  expect(int64_t{plan.units[1]} * plan.segment >= problem.input_size[1] &&
             int64_t{plan.units[1] - 1} * plan.segment < problem.input_size[1],
         "segments cover the height, and none is empty", problem);
  const int64_t single = plan.units[2] - plan.whole_patches;
  expect(int64_t{plan.whole_patches} * plan.patch_width + single == problem.input_size[2],
         "patches and single positions are the width", problem);
  expect(single == 0 || plan.access == DepthwisePatchAccess::kChannels, "vectors of a row are whole", problem);
  expect(plan.blocks() <= std::max(1024, plan.channel_tiles), "partial sums are few", problem);
}

// With the bias's gradient, where the taps in the middle of height and width have all outputs.
inline void check_patches_of_bias(const Problem& problem, DataType dtype, const Operands& operands,
                                  bool channels_last) {
  const int64_t middle = (problem.kernel_size[1] - 1) / 2;
  const bool has_all = first_bias_tap(problem, 0) && neighbours_reach_all(problem, 1, middle) &&
                       neighbours_reach_all(problem, 2, middle);
  const auto plan = plan_depthwise_patches(Operator::kWeightGrad, problem, dtype, operands, true);
  expect(plan.has_value() == has_all, "patches have the bias's gradient where taps in the middle do", problem);
  if (!plan) return;
  check_depthwise_patch(*plan, problem, channels_last);
  expect(plan->has_bias() && reach_each_once(problem, 0, plan->bias_taps), "planes are summed once", problem);
  expect(plan->workspace_bytes() - 4 * plan->partial_elements() == int64_t{4} * plan->item_tiles * plan->channels,
         "each block has a sum of each channel", problem);
}

// All gradients at once, of three taps along each axis.
inline void check_patches_together(const Problem& problem, DataType dtype, bool channels_last) {
  Operands operands = dense_operands(problem, channels_last);
  std::swap(operands.first, operands.result);
  operands.weight = std::exchange(operands.second, operands.result);
  for (const Operator op : {Operator::kBackward, Operator::kBackwardAndBias}) {
    const bool bias = op == Operator::kBackwardAndBias;
    const auto plan = plan_depthwise_patches(op, problem, dtype, operands, bias);
    const auto alone = plan_depthwise_patches(Operator::kWeightGrad, problem, dtype, operands, bias);
    const bool taken = problem.kernel_size == Int3{3, 3, 3} && alone;
    // Vectors of channels are shorter than the weight gradient's.
    expect(plan || !taken, "all gradients have patches where the weight's has", problem);
    expect(!plan || problem.kernel_size == Int3{3, 3, 3}, "... and the kernel is 3", problem);
    if (!plan) continue;
    check_depthwise_patch(*plan, problem, channels_last);
    expect(plan->has_bias() == bias, "with the bias's gradient or without", problem);
    expect(plan->sums_offset % 4 == 0 && plan->sums_offset >= 27 * plan->tile_channels(), "weights come first",
           problem);
  }
}

inline void check_depthwise_patches(const Problem& any, int channels) {
  constexpr int kKernels[][2] = {{3, 1}, {3, 2}, {5, 2}, {7, 2}, {5, 1}, {2, 2}};
  Problem problem = any;
  problem.groups = problem.in_channels = problem.out_channels = channels;
  for (const auto& [taps, stride] : kKernels) {
    for (const int i : {1, 2}) {
      problem.kernel_size[i] = taps;
      problem.stride[i] = stride;
      problem.dilation[i] = 1;
      problem.padding[i] = std::min<int64_t>(problem.padding[i], taps / 2);
      problem.output_padding[i] = std::min<int64_t>(problem.output_padding[i], stride - 1);
      if (problem.output_size(i) < 1) return;
    }
    for (const Operator op : {Operator::kForward, Operator::kInputGrad, Operator::kWeightGrad}) {
      for (const bool channels_last : {false, true}) {
        for (const DataType dtype : {DataType::kFloat32, DataType::kBFloat16}) {
          Operands operands = depthwise_gradient_operands(problem, op, channels_last);
          if (op == Operator::kForward) operands = dense_operands(problem, channels_last);
          const bool known = op != Operator::kForward && !(taps == 5 && stride == 1) && taps != 2;
          const auto plan = plan_depthwise_patches(op, problem, dtype, operands, false);
          if (!known || !plan_depthwise_tiles(op, problem, dtype, operands, false)) {
            expect(!plan, "patches are for gradients with the commonest kernels, where tiles are", problem);
            continue;
          }
          // Vectors of channels may not fit; neighbours along the width always do.
          expect(plan || (channels_last && channels > 1), "a gradient of any width has patches", problem);
          if (plan) check_depthwise_patch(*plan, problem, channels_last);
          if (plan && op == Operator::kWeightGrad) check_patches_of_bias(problem, dtype, operands, channels_last);
          if (op == Operator::kWeightGrad) check_patches_together(problem, dtype, channels_last);
          operands.mask = operands.first;
          for (const Operator all : {Operator::kBackward, Operator::kBackwardAndBias}) {
            expect(!plan_depthwise_patches(all, problem, dtype, operands, false), "a mask has no patches", problem);
          }
          expect(!plan_depthwise_patches(op, problem, dtype, operands, false), "a mask has no patches", problem);
        }
      }
    }
  }
}

// Partial sums take as much memory whatever the batch is.
inline void check_depthwise_patch_workspace() {
  Problem problem;
  problem.groups = problem.in_channels = problem.out_channels = 96;
  problem.input_size = {32, 40, 48};
  problem.kernel_size = {7, 7, 7};
  problem.stride = {2, 2, 2};
  problem.padding = {3, 3, 3};
  for (const bool channels_last : {false, true}) {
    for (const int batch : {1, 4, 64}) {
      problem.batch = batch;
      const auto operands = depthwise_gradient_operands(problem, Operator::kWeightGrad, channels_last);
      const auto plan = plan_depthwise_patches(Operator::kWeightGrad, problem, DataType::kFloat32, operands, false);
      expect(plan && plan->workspace_bytes() <= 16 << 20, "the workspace is bounded", problem);
    }
  }
}

inline void check_joined_taps() {
  Problem problem;
  problem.kernel_size = {3, 5, 7};
  expect(joins_taps(problem, dense_operand(8, problem.kernel_size, false).stride), "taps are an axis", problem);
  expect(joins_taps(problem, dense_operand(8, problem.kernel_size, true).stride), "... with channels between", problem);
  expect(!joins_taps(problem, {210, 210, 70, 10, 1}) && !joins_taps(problem, {210, 210, 70, 7, 1}),
         "rows, or planes, that are farther apart are axes of their own", problem);
}

}  // namespace convt3d
