// Weight gradient of the engine on mma.sync.
#pragma once

#include "core/integer.h"
#include "device/copied_source.cuh"
#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "device/ordered_sum.cuh"
#include "engines/mma/tile/copied_range.cuh"
#include "engines/mma/weight_grad/kernel.cuh"
#include "engines/mma/weight_grad/run.h"

namespace convt3d::mma {

template <typename T>
LoadParams<T> load_params(const WeightGradPlan& plan, const StagedTile& tile, const LoadShape& shape, LoadWay way,
                          ConstTensor source, ConstTensor mask, const Int3& size) {
  LoadParams<T> params{};
  params.source = make_source<T>(source, mask, size, {});
  params.tile = tile;
  params.shape = shape;
  params.way = way;
  params.batch = plan.batch;
  return params;
}

template <typename T, int kTerms>
void run_weight_grad(const WeightGradPlan& plan, const WeightGradParams<T>& params, Stream stream) {
  const auto run = [&](auto kernel) {
    launch("weight gradient", kernel, plan.blocks(), kGradThreads, stream, params, plan.layout.bytes,
           overlapping_order("weight gradient", reinterpret_cast<const void*>(kernel)));
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

// T: of the operands, as the kernel reads them. `workspace`: sums that are added in the end.
template <typename T>
WeightGradParams<T> weight_grad_params(const Problem& problem, const WeightGradPlan& plan, ConstTensor grad_output,
                                       ConstTensor relu_output, ConstTensor input, void* workspace) {
  WeightGradParams<T> params{};
  const auto read = [](const auto& of) { return kIsPaired<T> ? width_pairs_of(of) : of; };
  params.source[0] = load_params<T>(plan, plan.grad, plan.grad_shape, plan.layouts.grad, read(grad_output),
                                    read(relu_output), read(problem.output_size()));
  params.source[1] =
      load_params<T>(plan, plan.input, plan.input_shape, plan.layouts.input, read(input), {}, read(problem.input_size));
  params.pairs = plan.pairs;
  params.pairs_apart = plan.pairs_apart;
  params.width_taps = plan.width_taps();
  for (std::size_t i = 0; i < 3; ++i) params.taps[i] = plan.taps[i];
  params.layout = plan.layout;
  params.input_bytes = plan.input.bytes();
  for (std::size_t i = 0; i < 3; ++i) params.box[i] = make_divisor(plan.box[i]);
  for (std::size_t i = 0; i < 3; ++i) params.boxes[i] = make_divisor(plan.boxes[i + 1]);
  params.end_box = static_cast<int32_t>(plan.box_count());
  params.source_group[0] = plan.grad_copy.exists ? plan.grad_copy.padded : plan.row_channels;
  params.source_group[1] = plan.input_copy.exists ? plan.input_copy.padded : plan.n_channels;
  params.groups = plan.groups;
  params.row_channels = plan.row_channels;
  params.n_channels = plan.n_channels;
  params.warps_groups = plan.warps_groups;
  params.warps_m = plan.warps_m;
  params.warps_n = plan.warps_n;
  params.warps_k = plan.warps_k;
  params.row_chunk = plan.row_chunk;
  params.n_chunk = plan.n_chunk;
  params.row_chunks = make_divisor(plan.row_chunks);
  params.n_chunks = make_divisor(plan.n_chunks);
  for (std::size_t i = 0; i < 3; ++i) params.parts[i] = make_divisor(plan.taps[i].parts);
  params.steps = plan.steps;
  params.stages = plan.stages;
  params.ahead = plan.ahead;
  params.tables = plan.tables();
  params.beside = plan.beside;
  params.only_copies = plan.only_copies();
  params.only_rows = plan.only_rows();
  params.tiles = make_divisor(plan.tiles());
  params.split_boxes = static_cast<int32_t>(plan.split_boxes);
  params.segment_boxes = plan.segment_boxes;
  params.partial = static_cast<float*>(workspace);
  params.n_pitch = plan.n_pitch();
  params.gradient_elements = plan.gradient_elements();
  if (plan.has_bias()) {
    params.bias_taps = plan.bias_taps;
    params.bias = reinterpret_cast<float*>(static_cast<unsigned char*>(workspace) + plan.bias_offset());
  }
  return params;
}

// The gradients of the weight and, where the plan has it, of the bias.
template <typename T>
void add_sums(const Problem& problem, const WeightGradPlan& plan, const void* workspace, const SummedGrads& grads,
              Stream stream) {
  const auto* const partial = static_cast<const float*>(workspace);
  const auto& stride = grads.weight.stride;
  const Int3& kernel = problem.kernel_size;
  OrderedSum<T, float> sums{};
  sums.partial = partial;
  sums.splits = plan.partials();
  sums.elements = plan.gradient_elements();
  sums.axis[0] = {plan.n_pitch(), plan.n_channels, stride[0]};
  sums.axis[1] = {plan.row_channels, plan.row_channels, stride[1]};
  for (std::size_t i = 0; i < 3; ++i) sums.axis[4 - i] = {kernel[i], kernel[i], stride[2 + i]};
  sums.axis[5] = {plan.groups, plan.groups, plan.n_channels * stride[0]};
  sums.destination = static_cast<T*>(grads.weight.data);
  if (plan.has_bias()) {
    sums.beside = {partial + plan.bias_offset() / static_cast<int64_t>(sizeof(float)),
                   plan.bias_partials() * grads.channel_folds, plan.groups * plan.row_channels / grads.channel_folds,
                   static_cast<T*>(grads.bias)};
  }
  add_gradient_in_order("weight gradient sum", sums, plan.sum_shape(), stream);
}

template <typename T>
void weight_grad(const Problem& problem, const WeightGradPlan& plan, ConstTensor grad_output, ConstTensor relu_output,
                 ConstTensor input, const SummedGrads& grads, void* workspace, Stream stream, const GradRound& round) {
  if constexpr (sizeof(T) == 2) {
    if (plan.pairs.exist) {
      WeightGradParams<WidthPair<T>> params =
          weight_grad_params<WidthPair<T>>(problem, plan, grad_output, relu_output, input, workspace);
      params.joins = round.joins;
      run_weight_grad<WidthPair<T>, 1>(plan, params, stream);
      if (round.adds) add_sums<T>(problem, plan, workspace, grads, stream);
      return;
    }
  }
  WeightGradParams<T> params = weight_grad_params<T>(problem, plan, grad_output, relu_output, input, workspace);
  auto* const bytes = static_cast<unsigned char*>(workspace);
  const int64_t count = portion_count(plan.portions, plan.boxes);
  for (int64_t number = 0; number < count; ++number) {
    const Portion portion = portion_at(plan.portions, plan.boxes, number);
    const auto range = [&](const OperandCopy& copy) { return copied_range(copy, portion, plan.images, plan.batch); };
    OperandCopy input_copy = plan.input_copy;
    if (plan.grad_copy.exists) {
      input_copy.beside =
          range(plan.grad_copy).depths.count > 0;  // the other copy's, which waits for the kernel before
      params.source[0].source = copied_source<T>(plan.grad_copy, range(plan.grad_copy), grad_output, relu_output,
                                                 bytes + plan.grad_copy_offset(), stream);
    }
    if (plan.input_copy.exists) {
      params.source[1].source =
          copied_source<T>(input_copy, range(input_copy), input, {}, bytes + plan.input_copy_offset(), stream);
    }
    params.first_box = static_cast<int32_t>(portion.first_box);
    params.end_box = static_cast<int32_t>(portion.end_box);
    params.joins = round.joins || number > 0;
    if (plan.terms == 1) {
      run_weight_grad<T, 1>(plan, params, stream);
    } else if constexpr (sizeof(T) == 4) {
      run_weight_grad<T, 2>(plan, params, stream);
    }
  }
  if (round.adds) add_sums<T>(problem, plan, workspace, grads, stream);
}

}  // namespace convt3d::mma
