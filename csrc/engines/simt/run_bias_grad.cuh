// Bias gradient of the general engine.
#pragma once

#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "device/overlap.cuh"
#include "engines/simt/bias_grad_kernel.cuh"
#include "engines/simt/dispatch.cuh"
#include "engines/simt/run.h"

namespace convt3d::simt {

template <typename T>
void run_bias_grad(const BiasGradPlan& plan, const BiasGradParams<T>& params, Stream stream) {
  const auto run = [&](auto read) {
    with_bool(plan.masked, [&](auto masked) {
      void (*const kernel)(BiasGradParams<T>) = convt3d_bias_grad<T, masked(), decltype(read)::value>;
      launch("bias gradient", kernel, params.channel_blocks * params.splits, kBiasGradThreads, stream, params, 0,
             overlapping_order("bias gradient", reinterpret_cast<const void*>(kernel)));
    });
  };
  switch (plan.read) {
    case BiasGradRead::kElements:
      return run(std::integral_constant<BiasGradRead, BiasGradRead::kElements>{});
    case BiasGradRead::kChannels:
      return run(std::integral_constant<BiasGradRead, BiasGradRead::kChannels>{});
    case BiasGradRead::kRuns:
      return run(std::integral_constant<BiasGradRead, BiasGradRead::kRuns>{});
  }
}

template <typename T>
void bias_grad(const Problem& problem, const BiasGradPlan& plan, ConstTensor grad_output, ConstTensor relu_output,
               void* grad_bias, void* workspace, Stream stream) {
  BiasGradParams<T> params{};
  const Int3 size = problem.output_size();
  params.grad_output = make_source<T>(grad_output, relu_output, size, {});
  params.grid.batch = problem.batch;
  if (plan.collapsed) {  // stepping through positions seldom divides
    params.grid.extent[0] = params.grid.extent[1] = 1;
    params.grid.extent[2] = static_cast<uint32_t>(size[0] * size[1] * size[2]);
  } else {
    for (int i = 0; i < 3; ++i) params.grid.extent[i] = static_cast<uint32_t>(size[i]);
  }
  if (plan.read == BiasGradRead::kRuns) params.grid.extent[2] = 1;  // a run is all of it
  params.run = plan.run;
  params.run_pieces = plan.run_pieces;
  params.units = plan.units;
  params.split_units = plan.split_units;
  params.channels = problem.out_channels;
  while ((1 << params.lane_bits) < plan.channel_lanes) ++params.lane_bits;
  params.channel_blocks = plan.channel_blocks;
  params.splits = plan.splits;
  params.partial = static_cast<double*>(workspace);
  run_bias_grad(plan, params, stream);

  OrderedSum<T, double> sums{};
  sums.partial = params.partial;
  sums.splits = plan.splits;
  sums.elements = problem.out_channels;
  sums.axis[0] = {problem.out_channels, problem.out_channels, 1};
  sums.destination = static_cast<T*>(grad_bias);
  add_in_order<OrderedSumKernel<kOrderedSumThreads, 1>>("bias gradient reduction", sums, plan.sum_shape(), stream);
}

}  // namespace convt3d::simt
