// The engine's patches: which of the kernels, and its parameters.
#pragma once

#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "device/ordered_sum.cuh"
#include "engines/depthwise/patch_backward_kernel.cuh"
#include "engines/depthwise/patch_input_grad_kernel.cuh"
#include "engines/depthwise/patch_weight_grad_kernel.cuh"
#include "engines/depthwise/run_patches.h"

namespace convt3d::depthwise {

// Hands `function` the plan's taps and access, as values of types of their own.
template <typename Function>
void with_patch(const DepthwisePatchPlan& plan, Function&& function) {
  with_patch_taps(plan.taps, [&](auto taps) {
    using Access = DepthwisePatchAccess;
    switch (plan.access) {
      case Access::kRows:
        return function(taps, std::integral_constant<Access, Access::kRows>());
      case Access::kElements:
        return function(taps, std::integral_constant<Access, Access::kElements>());
      case Access::kChannels:
        return function(taps, std::integral_constant<Access, Access::kChannels>());
    }
  });
}

template <typename T>
DepthwisePatchTensor patch_tensor(const ConstTensor& tensor) {
  const auto step = [&](int i) { return tensor.stride[i] * static_cast<int64_t>(sizeof(T)); };
  return {static_cast<const unsigned char*>(tensor.data), {step(0), step(1), step(2), step(3), step(4)}};
}

template <typename T>
void patch_input_grad(const DepthwisePatchPlan& plan, ConstTensor grad_output, ConstTensor weight,
                      MutableTensor grad_input, Stream stream) {
  DepthwisePatchParams<T> params{};
  params.plan = plan;
  params.source = patch_tensor<T>(grad_output);
  params.weight = static_cast<const T*>(weight.data);
  params.weight_stride = to_strides(weight.stride);
  params.destination = static_cast<T*>(grad_input.data);
  params.destination_stride = to_strides(grad_input.stride);
  with_patch(plan, [&](auto taps, auto access) {
    auto* const kernel = convt3d_depthwise_patch_input_grad<T, decltype(taps), decltype(access)::value>;
    launch("depthwise input gradient", kernel, plan.blocks(), plan.threads, stream, params, plan.shared_bytes);
  });
}

// The partial sums of all blocks -> the gradients.
template <typename T>
void add_patch_sums(const Problem& problem, const DepthwisePatchPlan& plan, const DepthwisePatchParams<T>& params,
                    const SummedGrads& grads, Stream stream) {
  const auto& stride = grads.weight.stride;
  const auto& taps = problem.kernel_size;
  OrderedSum<T, float> sums{};
  sums.partial = params.partial;
  sums.splits = plan.item_tiles;
  sums.elements = plan.partial_elements() / plan.item_tiles;
  const OrderedSumAxis channels = {int64_t{plan.channel_tiles} * plan.tile_channels(), plan.channels, stride[0]};
  if (joins_taps(problem, stride)) {
    sums.axis[0] = {problem.taps(), problem.taps(), stride[4]};
    sums.axis[1] = channels;
  } else {
    for (int i = 0; i < 3; ++i) sums.axis[i] = {taps[2 - i], taps[2 - i], stride[4 - i]};
    sums.axis[3] = channels;
  }
  sums.destination = static_cast<T*>(grads.weight.data);
  if (plan.has_bias()) {
    sums.beside = {params.bias_partial, plan.item_tiles, plan.channels, static_cast<T*>(grads.bias)};
  }
  add_in_order<OrderedSumKernel<kDepthwisePatchSumLanes, kOrderedSumRows>,
               OrderedSumKernel<kDepthwisePatchSumLanes, 1>>("depthwise weight gradient reduction", sums,
                                                             plan.sum_shape(), stream);
}

template <typename T>
DepthwisePatchParams<T> walk_params(const DepthwisePatchPlan& plan, const ConstTensor& grad_output,
                                    const ConstTensor& input, void* workspace) {
  DepthwisePatchParams<T> params{};
  params.plan = plan;
  params.source = patch_tensor<T>(grad_output);
  params.input = patch_tensor<T>(input);
  params.partial = static_cast<float*>(workspace);
  params.bias_partial = params.partial + plan.partial_elements();
  return params;
}

template <typename T>
void patch_weight_grad(const Problem& problem, const DepthwisePatchPlan& plan, ConstTensor grad_output,
                       ConstTensor input, const SummedGrads& grads, void* workspace, Stream stream) {
  const DepthwisePatchParams<T> params = walk_params<T>(plan, grad_output, input, workspace);
  with_patch(plan, [&](auto taps, auto access) {
    using Taps = decltype(taps);
    constexpr DepthwisePatchAccess kAccess = decltype(access)::value;
    auto* const kernel = plan.has_bias() ? convt3d_depthwise_patch_weight_grad<T, Taps, kAccess, true>
                                         : convt3d_depthwise_patch_weight_grad<T, Taps, kAccess, false>;
    launch("depthwise weight gradient", kernel, plan.blocks(), plan.threads, stream, params, plan.shared_bytes);
  });
  add_patch_sums(problem, plan, params, grads, stream);
}

template <typename T>
void patch_backward(const Problem& problem, const DepthwisePatchPlan& plan, ConstTensor grad_output, ConstTensor input,
                    ConstTensor weight, MutableTensor grad_input, const SummedGrads& grads, void* workspace,
                    Stream stream) {
  DepthwisePatchParams<T> params = walk_params<T>(plan, grad_output, input, workspace);
  params.weight = static_cast<const T*>(weight.data);
  params.weight_stride = to_strides(weight.stride);
  params.destination = static_cast<T*>(grad_input.data);
  params.destination_stride = to_strides(grad_input.stride);
  with_patch(plan, [&](auto taps, auto access) {
    using Taps = decltype(taps);
    constexpr DepthwisePatchAccess kAccess = decltype(access)::value;
    if constexpr (Taps::kTaps == kDepthwiseTogetherTaps) {
      auto* const kernel = plan.has_bias() ? convt3d_depthwise_patch_backward<T, Taps, kAccess, true>
                                           : convt3d_depthwise_patch_backward<T, Taps, kAccess, false>;
      launch("depthwise backward", kernel, plan.blocks(), plan.threads, stream, params, plan.shared_bytes);
    }
  });
  add_patch_sums(problem, plan, params, grads, stream);
}

}  // namespace convt3d::depthwise
