// Weight gradient of the general engine.
#pragma once

#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "device/ordered_sum.cuh"
#include "engines/simt/dispatch.cuh"
#include "engines/simt/run.h"
#include "engines/simt/weight_grad_kernel.cuh"

namespace convt3d::simt {

template <typename T>
void run_weight_grad(const WeightGradPlan& plan, const WeightGradParams<T>& params, Stream stream) {
  with_tile(plan.tile, [&](auto tile) {
    with_bool(plan.masked, [&](auto masked) {
      launch("weight gradient", convt3d_weight_grad<T, tile(), masked()>, params.tiles,
             Tile<tile(), Accumulator<T>>::kThreads, stream, params);
    });
  });
}

template <typename T>
void weight_grad(const Problem& problem, const WeightGradPlan& plan, ConstTensor grad_output, ConstTensor relu_output,
                 ConstTensor input, MutableTensor grad_weight, void* workspace, Stream stream) {
  WeightGradParams<T> params{};
  for (int i = 0; i < 3; ++i) {
    params.axis[i] = plan.axis[i];
    params.grid.extent[i] = static_cast<uint32_t>(problem.input_size[i]);
  }
  params.grid.batch = plan.batch;
  params.groups = plan.groups;
  params.tiles = plan.tiles();
  params.tiles_m = plan.tiles_m;
  params.tiles_n = plan.tiles_n;
  params.rows = plan.rows;
  params.positions = plan.positions;
  params.split_positions = plan.split_positions;
  params.row_channels = plan.row_channels;
  params.row_padded = plan.row_padded;
  params.n_channels = plan.n_channels;
  params.grad_output = make_source<T>(grad_output, relu_output, problem.output_size(), plan.grad_output);
  params.input = make_source<T>(input, {}, problem.input_size, plan.input);
  params.partial = static_cast<double*>(workspace);
  run_weight_grad(plan, params, stream);

  const auto& stride = grad_weight.stride;
  const Int3& kernel = problem.kernel_size;
  OrderedSum<T, double> sums{};
  sums.partial = params.partial;
  sums.splits = plan.splits;
  sums.elements = plan.partial_elements / plan.splits;
  sums.axis[0] = {plan.n_channels, plan.n_channels, stride[0]};
  sums.axis[1] = {plan.row_padded, plan.row_channels, stride[1]};
  for (int i = 0; i < 3; ++i) sums.axis[4 - i] = {kernel[i], kernel[i], stride[2 + i]};
  sums.axis[5] = {plan.groups, plan.groups, plan.n_channels * stride[0]};
  sums.destination = static_cast<T*>(grad_weight.data);
  add_in_order<OrderedSumKernel<1, kOrderedSumRows>>("weight gradient reduction", sums, plan.sum_shape(), stream);
}

}  // namespace convt3d::simt
