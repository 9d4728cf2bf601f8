// Weight gradient of the engine on mma.sync.
#pragma once

#include "core/integer.h"
#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "engines/mma/run_weight_grad.h"
#include "engines/mma/weight_grad_kernel.cuh"
#include "engines/mma/weight_grad_sum.cuh"

namespace convt3d::mma {

constexpr int kGradSumThreads = 128;

template <typename T>
TileParams<T> grad_tile_params(const WeightGradPlan& plan, const StagedTile& tile, ConstTensor source, ConstTensor mask,
                               const Int3& size, int64_t channels) {
  TileParams<T> params{};
  params.source = make_source<T>(source, mask, size, channels);
  params.tile = tile;
  const bool masked = mask.data != nullptr;
  const auto pieces = [&](const ConstTensor& tensor) {
    return has_pieces(tensor, sizeof(T), channels, kPieceChannels<T>);
  };
  params.way = pieces(source) && (!masked || pieces(mask)) ? (masked ? LoadWay::kPieces : LoadWay::kCopy)
               : source.stride[1] == 1                     ? LoadWay::kChannels
                                                           : LoadWay::kWidth;
  params.batch = plan.batch;
  params.rounds = plan.terms == 1;
  return params;
}

template <typename T, int kTerms>
void run_weight_grad(const WeightGradPlan& plan, const WeightGradParams<T>& params, Stream stream) {
  const auto run = [&](auto kernel) {
    launch("weight gradient", kernel, plan.tiles() * plan.splits, kGradThreads, stream, params, plan.shared_bytes);
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
  params.grad = grad_tile_params<T>(plan, plan.grad, grad_output, relu_output, problem.output_size(),
                                    problem.out_channels_per_group());
  params.input = grad_tile_params<T>(plan, plan.input, input, {}, problem.input_size, problem.in_channels_per_group());
  for (std::size_t i = 0; i < 3; ++i) {
    params.taps[i] = plan.taps[i];
    params.box[i] = plan.box[i];
  }
  params.images = plan.images;
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
  params.most_eights = plan.most_eights();
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

  GradSumParams<T> sum{};
  sum.partial = params.partial;
  sum.slots = plan.slots();
  sum.elements = params.slot_elements;
  sum.row_channels = plan.row_channels;
  sum.n_channels = plan.n_channels;
  for (std::size_t i = 0; i < 3; ++i) sum.kernel[i] = static_cast<int32_t>(problem.kernel_size[i]);
  sum.grad_weight = static_cast<T*>(grad_weight.data);
  sum.stride = to_strides(grad_weight.stride);
  launch("weight gradient sum", convt3d_mma_weight_grad_sum<T>, ceil_div(sum.elements, kGradSumThreads),
         kGradSumThreads, stream, sum);
}

}  // namespace convt3d::mma
