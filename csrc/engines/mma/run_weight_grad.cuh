// Weight gradient of the engine on mma.sync.
#pragma once

#include "core/integer.h"
#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "device/ordered_sum.cuh"
#include "engines/mma/run_weight_grad.h"
#include "engines/mma/weight_grad_kernel.cuh"

namespace convt3d::mma {

constexpr int kSumLanes = 8;  // threads that share an element's splits, where there are many

template <typename T>
BoxSource<T> box_source(const WeightGradPlan& plan, const StagedTile& tile, const std::array<TapParts, 3>& taps,
                        LoadWay way, ConstTensor source, ConstTensor mask, const Int3& size, int32_t columns) {
  BoxSource<T> params{};
  params.source = make_source<T>(source, mask, size, {});
  params.way = way;
  params.rounds = plan.terms == 1;
  params.batch = plan.batch;
  for (std::size_t i = 0; i < 3; ++i) params.taps[i] = taps[i];
  params.images = tile.images;
  for (std::size_t i = 0; i < 4; ++i) params.row_bytes[i] = tile.stride[i] * tile.pitch;
  params.pieces = tile.pieces;
  params.lines = WeightGradPlan::lines(tile);
  params.columns = columns;
  params.by_pieces = make_divisor(tile.pieces);
  params.by_columns = make_divisor(way == LoadWay::kWidthPairs ? columns / 2 : columns);
  for (std::size_t i = 0; i < 2; ++i) {
    params.by_rows[i] = make_divisor(taps[i].rows());
    params.by_length[i] = make_divisor(taps[i].length);
  }
  params.by_units = make_divisor(taps[2].units);
  return params;
}

// Of the input: a position reads itself.
inline std::array<TapParts, 3> itself(const std::array<int32_t, 3>& box) {
  std::array<TapParts, 3> taps{};
  for (std::size_t i = 0; i < 3; ++i) taps[i] = {1, 1, 0, 1, 1, 1, 1, 1, box[i]};
  return taps;
}

template <typename T, int kTerms>
void run_weight_grad(const WeightGradPlan& plan, const WeightGradParams<T>& params, Stream stream) {
  const auto run = [&](auto kernel) {
    launch("weight gradient", kernel, plan.tiles() * plan.splits, kGradThreads, stream, params, plan.layout.bytes);
  };
  switch (plan.columns) {
    case 1:
      return run(convt3d_mma_weight_grad<T, kTerms, 1>);
    case 2:
      return run(convt3d_mma_weight_grad<T, kTerms, 2>);
    default:
      return run(convt3d_mma_weight_grad<T, kTerms, 4>);
  }
}

template <typename T>
void weight_grad(const Problem& problem, const WeightGradPlan& plan, ConstTensor grad_output, ConstTensor relu_output,
                 ConstTensor input, MutableTensor grad_weight, void* workspace, Stream stream) {
  WeightGradParams<T> params{};
  params.source[0] = box_source<T>(plan, plan.grad, plan.taps, plan.layouts.grad, grad_output, relu_output,
                                   problem.output_size(), plan.grad_columns());
  params.source[1] = box_source<T>(plan, plan.input, itself(plan.box), plan.layouts.input, input, {},
                                   problem.input_size, plan.input_columns());
  params.layout = plan.layout;
  params.grad_bytes = plan.grad.bytes();
  params.input_bytes = plan.input.bytes();
  for (std::size_t i = 0; i < 3; ++i) params.box[i] = plan.box[i];
  for (std::size_t i = 0; i < 4; ++i) params.boxes[i] = plan.boxes[i];
  params.box_count = plan.box_count();
  params.groups = plan.groups;
  params.row_channels = plan.row_channels;
  params.n_channels = plan.n_channels;
  params.warps_groups = plan.warps_groups;
  params.warps_m = plan.warps_m;
  params.warps_n = plan.warps_n;
  params.warps_k = plan.warps_k;
  params.row_chunk = plan.row_chunk;
  params.n_chunk = plan.n_chunk;
  params.row_chunks = plan.row_chunks;
  params.n_chunks = plan.n_chunks;
  params.group_blocks = plan.group_blocks;
  params.steps = plan.steps;
  params.stages = plan.stages;
  params.tiles = plan.tiles();
  params.split_boxes = plan.split_boxes;
  params.segment_boxes = plan.segment_boxes;
  params.partial = static_cast<float*>(workspace);
  params.slot_elements = plan.slot_elements();
  if (plan.terms == 1) {
    run_weight_grad<T, 1>(plan, params, stream);
  } else if constexpr (sizeof(T) == 4) {
    run_weight_grad<T, 2>(plan, params, stream);
  }

  const auto& stride = grad_weight.stride;
  const Int3& kernel = problem.kernel_size;
  OrderedSumParams<T, float> sums{};
  sums.partial = params.partial;
  sums.splits = plan.slots();
  sums.elements = plan.slot_elements();
  sums.axis[0] = {plan.n_channels, plan.n_channels, stride[0]};
  sums.axis[1] = {plan.row_channels, plan.row_channels, stride[1]};
  for (std::size_t i = 0; i < 3; ++i) sums.axis[4 - i] = {kernel[i], kernel[i], stride[2 + i]};
  sums.axis[5] = {plan.groups, plan.groups, plan.n_channels * stride[0]};
  sums.destination = static_cast<T*>(grad_weight.data);
  if (sums.splits < kSumLanes) {
    add_in_order<1>("weight gradient sum", sums, stream);
  } else {
    add_in_order<kSumLanes>("weight gradient sum", sums, stream);
  }
}

}  // namespace convt3d::mma
