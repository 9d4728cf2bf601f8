// Problem -> how all gradients are computed from one read of grad_output, as data; where no tap meets another (kernel
// == stride). Knows nothing of torch or CUDA.
//
// A block is one of the weight gradient that has all taps and channels of a group, and whose stages more warps multiply
// with the weight: rows of the input gradient, and the sums of grad_output beside them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/integer.h"
#include "engines/mma/correlation/plan.h"
#include "engines/mma/weight_grad/plan.h"

namespace convt3d::mma {

constexpr int kInputWarps = 4;  // warps that multiply for the input gradient
constexpr int kInputThreads = 32 * kInputWarps;
constexpr int kBackwardThreads = kGradThreads + kInputThreads;

constexpr int kFurtherSteps = 5;  // numbers past the last one of the table of steps, which may be read

// Tiles of the input gradient; all channels of a group are in one.
constexpr Shape kBackwardShapes[] = {Shape::k256x16, Shape::k128x32, Shape::k64x64, Shape::k64x64Wide,
                                     Shape::k128x64Wide};
// Two terms of the wide ones would not have the registers. Of one term warps are as wide as the tile, as a warpgroup's
// are. `channel_rows`: of grad_output's tile.
constexpr bool has_backward_shape(Shape shape, int terms, bool channel_rows) {
  const bool wide = shape == Shape::k64x64Wide || shape == Shape::k128x64Wide;
  return terms == 1 ? shape != Shape::k64x64 : !wide && !channel_rows;
}
// Of a warpgroup's product (warpgroup_product.cuh): steps of K whose products are on their way together, as many as the
// registers allow, and of which twice as many are taken at once.
CONVT3D_HOST_DEVICE constexpr int steps_together(Shape shape) { return shape_extent(shape, 1).warp_m == 16 ? 2 : 1; }
CONVT3D_HOST_DEVICE constexpr int steps_at_once(Shape shape) { return 2 * steps_together(shape); }
// Fragments of a warp of the weight gradient: all of the tile's columns where the registers allow, so that each row is
// read by one warp.
CONVT3D_HOST_DEVICE constexpr int backward_columns(Shape shape, int terms) {
  const int columns = shape_extent(shape, terms).n() / 8;
  return terms > 1 && columns > 4 ? 4 : columns;
}
CONVT3D_HOST_DEVICE constexpr int backward_rows(Shape shape, int terms) {
  const int columns = backward_columns(shape, terms);
  return terms > 1 ? 8 / columns : columns < 4 ? 4 : 16 / columns;
}

// A block's shared memory before that of the weight gradient, in bytes.
struct BackwardLayout {
  int32_t share;    // the block's share of the input gradient
  int32_t offsets;  // int64: where grad_input has each position of each warp, or each row
  int32_t steps;    // int32: where each step of K reads, from a position's row on; kFurtherSteps more follow
  int32_t bias;     // float32: sums of rows, where multiplying warps sum them; bias_sums.cuh
  int32_t staging;  // rows of grad_input on their way to memory
  int32_t weights;  // packed weights
  int64_t bytes;
};

struct BackwardPlan {
  WeightGradPlan grad;    // with the boxes and stages of all
  CorrelationPlan input;  // what the weight's packing and the stores look at
  bool warpgroup;         // the input gradient is Hopper's product of a warpgroup, in TF32
  int32_t channel_steps;  // steps of K of a tap
  int32_t result_bytes;   // bytes of an element of grad_input
  BackwardLayout layout;
  double cost_ms;  // expected time

  int32_t k_steps() const { return input.taps() * channel_steps; }
  // Those that have a weight: after the last one, zeros.
  int32_t weight_steps() const {
    return warpgroup ? static_cast<int32_t>(round_up(k_steps(), steps_at_once(input.shape))) : k_steps();
  }
  int64_t blocks() const { return grad.tiles() * grad.splits; }
  // The workspace: packed weight, sums of the gradients of weight and bias.
  int64_t partial_offset() const { return workspace_part(input.packed_bytes); }
  int64_t workspace_bytes() const { return partial_offset() + grad.workspace_bytes(); }
};

// The plans of all tiles, the best one first; none where the problem is not for this engine. Of the operands the second
// is the input, and the result grad_input.
std::vector<BackwardPlan> backward_candidates(const Problem& problem, DataType dtype, int terms,
                                              const Operands& operands, bool sums_bias, const DeviceTraits& device);
std::optional<BackwardPlan> plan_backward(const Problem& problem, DataType dtype, int terms, const Operands& operands,
                                          bool sums_bias, const DeviceTraits& device);
std::string to_string(const BackwardPlan& plan);

}  // namespace convt3d::mma
