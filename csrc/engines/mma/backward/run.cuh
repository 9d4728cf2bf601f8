// All gradients at once by the engine on mma.sync.
#pragma once

#include "engines/mma/backward/kernel.cuh"
#include "engines/mma/backward/run.h"
#include "engines/mma/backward/warpgroup_run.h"
#include "engines/mma/correlation/run.cuh"
#include "engines/mma/weight_grad/run.cuh"

namespace convt3d::mma {

// T: of the operands, as the kernel reads them.
template <typename T, int kTerms, Shape kShape>
void launch_backward(const BackwardPlan& plan, const BackwardParams<T>& params, Stream stream) {
  const auto launch_kernel = [&](auto channel_rows) {
    constexpr bool kChannelRows = decltype(channel_rows)::value;
    if constexpr (has_backward_shape(kShape, kTerms, kChannelRows)) {
      void (*const kernel)(BackwardParams<T>) = convt3d_mma_backward<T, kTerms, kShape, kChannelRows>;
      launch("backward", kernel, plan.blocks(), kBackwardThreads, stream, params, plan.grad.layout.bytes,
             overlapping_order("backward", reinterpret_cast<const void*>(kernel)));
    }
  };
  if constexpr (std::is_same_v<T, float>) {
    if (plan.grad.grad.has_channel_rows()) return launch_kernel(std::true_type{});
    return launch_kernel(std::false_type{});
  } else {
    launch_kernel(std::bool_constant<kIsPaired<T>>{});
  }
}

template <typename T, int kTerms>
void run_backward(const BackwardPlan& plan, const BackwardParams<T>& params, Stream stream) {
  switch (plan.input.shape) {
    case Shape::k256x16:
      return launch_backward<T, kTerms, Shape::k256x16>(plan, params, stream);
    case Shape::k128x32:
      return launch_backward<T, kTerms, Shape::k128x32>(plan, params, stream);
    case Shape::k64x64:
      return launch_backward<T, kTerms, Shape::k64x64>(plan, params, stream);
    case Shape::k64x64Wide:
      return launch_backward<T, kTerms, Shape::k64x64Wide>(plan, params, stream);
    default:
      return launch_backward<T, kTerms, Shape::k128x64Wide>(plan, params, stream);
  }
}

template <typename T>
void backward(const Problem& problem, const BackwardPlan& plan, ConstTensor grad_output, ConstTensor relu_output,
              ConstTensor input, ConstTensor weight, MutableTensor grad_input, const SummedGrads& grads,
              void* workspace, Stream stream) {
  auto* const bytes = static_cast<unsigned char*>(workspace);
  pack_weight<T>(problem, plan.input, weight, WeightOrder::kOutputIsK, bytes, stream);
  const auto run = [&](auto operand, auto terms) {
    using Operand = decltype(operand);
    BackwardParams<Operand> params{};
    params.grad =
        weight_grad_params<Operand>(problem, plan.grad, grad_output, relu_output, input, bytes + plan.partial_offset());
    params.store = store_params<T>(plan.input, grad_input);
    params.layout = plan.layout;
    params.channel_steps = plan.channel_steps;
    params.taps = plan.input.taps();
    params.weight_steps = plan.weight_steps();
    params.weight = bytes;
    if (plan.grad.bias == BiasSums::kMultiplyingWarps) std::swap(params.bias, params.grad.bias);
    if constexpr (std::is_same_v<Operand, float> && decltype(terms)::value == 1) {
      if (plan.warpgroup) return launch_backward_of_warpgroup(plan, params, stream);
    }
    run_backward<Operand, decltype(terms)::value>(plan, params, stream);
  };
  using One = std::integral_constant<int, 1>;
  if constexpr (sizeof(T) == 4) {
    if (plan.grad.terms == 1) {
      run(T{}, One{});
    } else {
      run(T{}, std::integral_constant<int, 2>{});
    }
  } else if (plan.grad.pairs.exist) {
    run(WidthPair<T>{}, One{});
  } else {
    run(T{}, One{});
  }
  add_sums<T>(problem, plan.grad, bytes + plan.partial_offset(), grads, stream);
}

}  // namespace convt3d::mma
