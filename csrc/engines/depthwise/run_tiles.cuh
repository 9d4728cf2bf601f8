// The engine's tiles: which of the kernels, and its parameters.
#pragma once

#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "device/ordered_sum.cuh"
#include "engines/depthwise/run_tiles.h"
#include "engines/depthwise/tile_correlation_kernel.cuh"
#include "engines/depthwise/tile_weight_grad_kernel.cuh"

namespace convt3d::depthwise {

template <typename T>
void add_load(DepthwiseTileParams<T>& params, ConstTensor tensor, const Int3& size, int32_t box, bool masks) {
  if (tensor.data == nullptr) return;
  DepthwiseLoad<T>& load = params.load[params.loads++];
  load.data = static_cast<const T*>(tensor.data);
  load.stride = to_strides(tensor.stride);
  for (int i = 0; i < 3; ++i) load.size[i] = static_cast<int32_t>(size[i]);
  load.box = box;
  load.masks = masks;
}

template <typename T>
void run_correlation(const char* name, const DepthwiseTilePlan& plan, const Int3& source_size, ConstTensor source,
                     ConstTensor mask, ConstTensor weight, const Epilogue& epilogue, MutableTensor result,
                     Stream stream) {
  DepthwiseTileParams<T> params{};
  params.plan = plan;
  add_load(params, source, source_size, 0, false);
  add_load(params, mask, source_size, 0, true);
  params.weight = static_cast<const T*>(weight.data);
  params.weight_stride = to_strides(weight.stride);
  params.destination = static_cast<T*>(result.data);
  params.destination_stride = to_strides(result.stride);
  params.epilogue = epilogue;
  auto* const kernel = plan.run == DepthwiseRun::kStep1 ? convt3d_depthwise_tile_correlation<T, DepthwiseRun::kStep1>
                       : plan.run == DepthwiseRun::kStep2
                           ? convt3d_depthwise_tile_correlation<T, DepthwiseRun::kStep2>
                           : convt3d_depthwise_tile_correlation<T, DepthwiseRun::kSpread>;
  launch(name, kernel, plan.blocks(), kDepthwiseTileThreads, stream, params, plan.shared_bytes);
}

template <typename T>
void tile_forward(const Problem& problem, const DepthwiseTilePlan& plan, ConstTensor input, ConstTensor weight,
                  const Epilogue& epilogue, MutableTensor output, Stream stream) {
  run_correlation<T>("depthwise forward", plan, problem.input_size, input, {}, weight, epilogue, output, stream);
}

template <typename T>
void tile_input_grad(const Problem& problem, const DepthwiseTilePlan& plan, ConstTensor grad_output,
                     ConstTensor relu_output, ConstTensor weight, MutableTensor grad_input, Stream stream) {
  run_correlation<T>("depthwise input gradient", plan, problem.output_size(), grad_output, relu_output, weight, {},
                     grad_input, stream);
}

template <typename T>
void tile_weight_grad(const Problem& problem, const DepthwiseTilePlan& plan, ConstTensor grad_output,
                      ConstTensor relu_output, ConstTensor input, const SummedGrads& grads, void* workspace,
                      Stream stream) {
  DepthwiseTileParams<T> params{};
  params.plan = plan;
  add_load(params, grad_output, problem.output_size(), 0, false);
  add_load(params, relu_output, problem.output_size(), 0, true);
  add_load(params, input, problem.input_size, 1, false);
  params.partial = static_cast<float*>(workspace);
  params.bias_partial = params.partial + plan.partial_elements();
  auto* const kernel = plan.run == DepthwiseRun::kStep1 ? convt3d_depthwise_tile_weight_grad<T, DepthwiseRun::kStep1>
                                                        : convt3d_depthwise_tile_weight_grad<T, DepthwiseRun::kStep2>;
  launch("depthwise weight gradient", kernel, plan.blocks(), kDepthwiseTileThreads, stream, params, plan.shared_bytes);

  const auto& stride = grads.weight.stride;
  OrderedSum<T, float> sums{};
  sums.partial = params.partial;
  sums.splits = plan.splits;
  sums.elements = plan.partial_elements() / plan.splits;
  sums.axis[0] = {plan.taps[1], plan.taps[1], stride[3]};
  sums.axis[1] = {plan.taps[2], plan.taps[2], stride[4]};
  sums.axis[2] = {plan.taps[0], plan.taps[0], stride[2]};
  sums.axis[3] = {int64_t{plan.channel_tiles} * plan.tile_channels, plan.channels, stride[0]};
  sums.destination = static_cast<T*>(grads.weight.data);
  if (plan.has_bias()) sums.beside = {params.bias_partial, plan.splits, plan.channels, static_cast<T*>(grads.bias)};
  add_in_order<OrderedSumKernel<kDepthwiseSumLanes, kOrderedSumRows>, OrderedSumKernel<kDepthwiseSumLanes, 1>>(
      "depthwise weight gradient reduction", sums, plan.sum_shape(), stream);
}

}  // namespace convt3d::depthwise
