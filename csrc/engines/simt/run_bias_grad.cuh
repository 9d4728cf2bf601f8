// Bias gradient of the general engine.
#pragma once

#include "core/access.h"
#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "engines/simt/bias_grad_kernel.cuh"
#include "engines/simt/dispatch.cuh"
#include "engines/simt/run.h"

namespace convt3d::simt {

template <typename T>
void run_bias_grad(const BiasGradParams<T>& params, Stream stream) {
  with_bool(params.grad_output.mask != nullptr, [&](auto masked) {
    launch("bias gradient", convt3d_bias_grad<T, masked()>, params.channel_blocks * params.splits, kBiasGradThreads,
           stream, params);
  });
}

// One axis where both tensors allow it, so that stepping through positions seldom divides.
inline void collapse_spatial(const ConstTensor& tensor, const ConstTensor& mask, const Int3& size, PositionGrid& grid) {
  if (!collapses(operand_traits(tensor), operand_traits(mask), size)) return;
  grid.extent[0] = grid.extent[1] = 1;
  grid.extent[2] = static_cast<uint32_t>(size[0] * size[1] * size[2]);
}

template <typename T>
void bias_grad(const std::array<int64_t, 5>& size, const BiasGradPlan& plan, ConstTensor grad_output,
               ConstTensor relu_output, void* grad_bias, void* workspace, Stream stream) {
  BiasGradParams<T> params{};
  const Int3 extent = {size[2], size[3], size[4]};
  params.grad_output = make_source<T>(grad_output, relu_output, extent, size[1]);
  params.grid = {size[0],
                 {static_cast<uint32_t>(size[2]), static_cast<uint32_t>(size[3]), static_cast<uint32_t>(size[4])}};
  collapse_spatial(grad_output, relu_output, extent, params.grid);
  params.channels = size[1];
  params.channel_lanes = plan.channel_lanes;
  params.channel_blocks = plan.channel_blocks;
  params.positions = plan.positions;
  params.splits = plan.splits;
  params.partial = static_cast<double*>(workspace);
  run_bias_grad(params, stream);

  OrderedSumParams<T, double> sums{};
  sums.partial = params.partial;
  sums.splits = plan.splits;
  sums.elements = size[1];
  sums.axis[0] = {size[1], size[1], 1};
  sums.destination = static_cast<T*>(grad_bias);
  add_in_order<kOrderedSumThreads>("bias gradient reduction", sums, stream);  // many splits of few channels
}

}  // namespace convt3d::simt
