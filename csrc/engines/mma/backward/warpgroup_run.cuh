// The kernels of the joint pass whose input gradient is Hopper's product of a warpgroup, in TF32.
#pragma once

#include "engines/mma/backward/kernel.cuh"
#include "engines/mma/backward/warpgroup_run.h"

namespace convt3d::mma {

template <typename T, Shape kShape, bool kChannelRows>
__global__ void __launch_bounds__(kBackwardThreads, 1)
    convt3d_mma_backward_of_warpgroup(const __grid_constant__ BackwardParams<T> params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // elsewhere an empty body, which the plan never chooses
  compute_backward<T, 1, kShape, kChannelRows, true>(params);
#endif
}

template <typename T>
void launch_backward_of_warpgroup(const BackwardPlan& plan, const BackwardParams<T>& params, Stream stream) {
  const auto of_shape = [&](auto shape) {
    const auto launch_kernel = [&](auto channel_rows) {
      void (*const kernel)(BackwardParams<T>) =
          convt3d_mma_backward_of_warpgroup<T, decltype(shape)::value, decltype(channel_rows)::value>;
      launch("backward", kernel, plan.blocks(), kBackwardThreads, stream, params, plan.grad.layout.bytes,
             overlapping_order("backward", reinterpret_cast<const void*>(kernel)));
    };
    if (plan.grad.grad.has_channel_rows()) return launch_kernel(std::true_type());
    launch_kernel(std::false_type());
  };
  switch (plan.input.shape) {
    case Shape::k256x16:
      return of_shape(std::integral_constant<Shape, Shape::k256x16>());
    case Shape::k128x32:
      return of_shape(std::integral_constant<Shape, Shape::k128x32>());
    case Shape::k64x64Wide:
      return of_shape(std::integral_constant<Shape, Shape::k64x64Wide>());
    default:
      return of_shape(std::integral_constant<Shape, Shape::k128x64Wide>());
  }
}

}  // namespace convt3d::mma
