// Weight gradient on Hopper's matrix units: the boxes of its tensors, its kernel, the sum of what its blocks leave.
#pragma once

#include <iterator>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "core/integer.h"
#include "device/launch.cuh"
#include "device/ordered_sum.cuh"
#include "engines/wgmma/encode.h"
#include "engines/wgmma/weight_grad/boxes.h"
#include "engines/wgmma/weight_grad/kernel.cuh"
#include "engines/wgmma/weight_grad/run.h"
#include "engines/wgmma/weight_grad/turned_kernel.cuh"

namespace convt3d::wgmma {

using WgmmaGradKernel = void (*)(WgmmaWeightGradParams);

[[noreturn]] inline void throw_no_grad_kernel(const WgmmaWeightGradPlan& plan) {
  throw std::logic_error("convt3d: no kernel for the plan " + to_string(plan));
}

// The kernel of one of kWgmmaGradInstructions, if it is this one or a later one in the list.
template <typename T, int kIndex = 0>
WgmmaGradKernel weight_grad_kernel(const WgmmaWeightGradPlan& plan) {
  if constexpr (kIndex < std::size(kWgmmaGradInstructions)) {
    constexpr WgmmaGradInstruction kIs = kWgmmaGradInstructions[kIndex];
    if (plan.instruction == kIs) return convt3d_halo_weight_grad<T, kIs.panels, kIs.sets>;
    return weight_grad_kernel<T, kIndex + 1>(plan);
  } else {
    throw_no_grad_kernel(plan);
  }
}

// The kernel of one of kWgmmaTurnedInstructions, likewise.
template <int kTerms, int kIndex = 0>
WgmmaGradKernel turned_grad_kernel(const WgmmaWeightGradPlan& plan) {
  if constexpr (kIndex < std::size(kWgmmaTurnedInstructions)) {
    constexpr WgmmaGradInstruction kIs = kWgmmaTurnedInstructions[kIndex];
    if constexpr (turned_fits(kIs, kTerms)) {
      constexpr int kColumns = kIs.panels * kWgmmaTurnedPanelChannels;
      if (plan.instruction == kIs) return convt3d_halo_weight_grad_turned<kColumns, kIs.sets, kIs.widths, kTerms>;
    }
    return turned_grad_kernel<kTerms, kIndex + 1>(plan);
  } else {
    throw_no_grad_kernel(plan);
  }
}

template <typename T>
void weight_grad(const Problem& problem, const WgmmaWeightGradPlan& plan, ConstTensor grad_output, ConstTensor input,
                 const SummedGrads& grads, void* workspace, Stream stream, const GradRound& round) {
  WgmmaWeightGradParams params{};
  params.plan = plan;
  TensorBox box = input_box(problem, plan, input.stride);
  box.data = input.data;
  box.type = wgmma_box_type<T>(false);
  encode_planned(box, "input", params.input);
  box = grad_box(problem, plan, grad_output.stride);
  box.data = grad_output.data;
  box.type = wgmma_box_type<T>(false);
  encode_planned(box, "gradient of the output", params.grad);
  params.by_tiles = make_divisor(plan.tiles());
  for (int i = 0; i < 3; ++i) {
    params.by_parts[i] = make_divisor(plan.taps[i].parts);
    params.by_boxes[i] = make_divisor(plan.boxes[i + 1]);
  }
  params.by_m_chunks = make_divisor(plan.m_chunks);
  params.by_n_chunks = make_divisor(plan.n_chunks);
  params.joins = round.joins;
  params.partial = static_cast<float*>(workspace);
  if (plan.has_bias()) {
    params.bias = reinterpret_cast<float*>(static_cast<unsigned char*>(workspace) + plan.bias_offset());
  }
  WgmmaGradKernel kernel;
  if constexpr (std::is_same_v<T, float>) {
    kernel = plan.terms == 1 ? turned_grad_kernel<1>(plan) : turned_grad_kernel<2>(plan);
  } else {
    kernel = weight_grad_kernel<T>(plan);
  }
  launch("weight gradient", kernel, plan.blocks(), kWgmmaGradThreads, stream, params, plan.shared_bytes(),
         overlapping_order("weight gradient", reinterpret_cast<const void*>(kernel)));
  if (!round.adds) return;
  const auto& stride = grads.weight.stride;
  OrderedSum<T, float> sums{};
  sums.partial = params.partial;
  sums.splits = plan.splits;
  sums.elements = plan.gradient_elements();
  sums.axis[0] = {plan.n_pitch(), plan.n_channels(), stride[plan.turned() ? 0 : 1]};
  sums.axis[1] = {plan.m_channels(), plan.m_channels(), stride[plan.turned() ? 1 : 0]};
  for (int i = 0; i < 3; ++i) sums.axis[4 - i] = {plan.taps[i].taps, plan.taps[i].taps, stride[2 + i]};
  sums.axis[5] = {plan.groups, plan.groups, plan.in_channels * stride[0]};
  sums.destination = static_cast<T*>(grads.weight.data);
  if (plan.has_bias()) {
    sums.beside = {params.bias, plan.bias_partials() * grads.channel_folds,
                   int64_t{plan.groups} * plan.out_channels / grads.channel_folds, static_cast<T*>(grads.bias)};
  }
  add_gradient_in_order("weight gradient sum", sums, plan.sum_shape(), stream);
}

}  // namespace convt3d::wgmma
