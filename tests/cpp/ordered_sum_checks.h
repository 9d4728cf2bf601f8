// The kernels that add partial sums, which plans choose.
#pragma once

#include "core/operands.h"
#include "core/ordered_sum_shape.h"
#include "engines/depthwise/patch_plan.h"
#include "engines/depthwise/tile_plan.h"
#include "engines/simt/plan.h"
#include "norm/plan.h"
#include "terms.h"

namespace convt3d {

inline void check_ordered_sum_shapes() {
  const Problem problem;
  // Two blocks for each of 256 multiprocessors, of so many sums each.
  for (const int32_t lanes : {4, 8, 16}) {
    const int64_t many = int64_t{2} * 256 * kOrderedSumRows * (kOrderedSumThreads / lanes);
    expect(ordered_sum_shape(lanes, many) == OrderedSumShape{lanes, kOrderedSumRows}, "rows share a thread", problem);
    expect(ordered_sum_shape(lanes, many - 1) == OrderedSumShape{lanes, 1}, "few sums are shared out", problem);
  }
  for (const int64_t elements : {int64_t{1}, int64_t{1} << 40}) {
    expect(ordered_sum_shape(1, elements) == OrderedSumShape{1, kOrderedSumRows}, "one lane is for many", problem);
    expect(ordered_sum_shape(kOrderedSumThreads, elements) == OrderedSumShape{kOrderedSumThreads, 1},
           "a block for a sum", problem);
  }
}

// Those of plans that choose between two.
inline void check_depthwise_sum_shapes() {
  Problem problem;
  problem.batch = 1;
  problem.input_size = {4, 16, 16};
  for (const int64_t channels : {64, 8192}) {
    problem.groups = problem.in_channels = problem.out_channels = channels;
    for (const int64_t taps : {3, 5}) {
      problem.kernel_size = {taps, taps, taps};
      problem.stride = {2, 2, 2};
      problem.padding = {taps / 2, taps / 2, taps / 2};
      Operands operands = dense_operands(problem, true);
      std::swap(operands.first, operands.result);
      std::swap(operands.second, operands.result);
      const int64_t sums = channels * problem.taps();
      const auto tiles = plan_depthwise_tiles(Operator::kWeightGrad, problem, DataType::kFloat32, operands, false);
      expect(tiles && tiles->sum_shape() == OrderedSumShape{16, sums >= 32768 ? 4 : 1}, "sums of tiles", problem);
      const auto patches = plan_depthwise_patches(Operator::kWeightGrad, problem, DataType::kFloat32, operands, false);
      expect(patches && patches->sum_shape() == OrderedSumShape{16, sums >= 32768 ? 4 : 1}, "sums of patches", problem);
    }
  }
}

inline void check_general_sum_shapes(const Problem& problem) {
  const OrderedSumShape weight = plan_weight_grad(problem, DataType::kFloat32, {}).sum_shape();
  expect(weight == OrderedSumShape{1, 4}, "sums of a weight gradient of the general engine", problem);
  const OrderedSumShape bias = plan_bias_grad(problem, DataType::kFloat32, {}).sum_shape();
  expect(bias == OrderedSumShape{256, 1}, "sums of a bias gradient", problem);
  const OrderedSumShape norm = norm::Plan{}.sum_shape(norm::Shape{problem.batch, problem.out_channels, 1, 1});
  expect(norm == OrderedSumShape{256, 1}, "sums of a norm's gradients", problem);
}

}  // namespace convt3d
