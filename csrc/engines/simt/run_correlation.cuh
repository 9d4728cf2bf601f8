// Forward and input gradient of the general engine.
#pragma once

#include "core/integer.h"
#include "core/weight_order.h"
#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "engines/simt/correlation_kernel.cuh"
#include "engines/simt/dispatch.cuh"
#include "engines/simt/fill_kernel.cuh"
#include "engines/simt/pack_weight.cuh"
#include "engines/simt/run.h"

namespace convt3d::simt {

constexpr int kElementwiseThreads = 256;

template <typename T>
T* pack_weight(const Problem& problem, const CorrelationPlan& plan, ConstTensor weight, WeightOrder order,
               void* workspace, Stream stream) {
  PackWeightParams<T> params{};
  params.weight = static_cast<const T*>(weight.data);
  params.stride = weight_strides(problem, weight, order);
  for (int i = 0; i < 3; ++i) params.kernel[i] = static_cast<int32_t>(problem.kernel_size[i]);
  params.k_channels = plan.k_channels;
  params.n_channels = plan.n_channels;
  params.k_padded = plan.k_padded;
  params.n_padded = plan.n_padded;
  params.elements = plan.packed_weight_elements;
  params.packed = static_cast<T*>(workspace);
  launch("weight packing", convt3d_pack_weight<T>, ceil_div(params.elements, kElementwiseThreads), kElementwiseThreads,
         stream, params);
  return params.packed;
}

template <typename T>
CorrelationParams<T> correlation_params(const CorrelationPlan& plan, const Source<T>& source, const T* packed_weight,
                                        MutableTensor destination) {
  CorrelationParams<T> params{};
  for (int i = 0; i < 3; ++i) params.axis[i] = plan.axis[i];
  params.batch = plan.batch;
  params.groups = plan.groups;
  params.tiles = plan.tiles();
  params.tiles_n = plan.tiles_n;
  params.k_channels = plan.k_channels;
  params.n_channels = plan.n_channels;
  params.k_padded = plan.k_padded;
  params.n_padded = plan.n_padded;
  params.source = source;
  params.weight = packed_weight;
  params.destination = static_cast<T*>(destination.data);
  params.destination_stride = to_strides(destination.stride);
  params.destination_channels_contiguous = plan.destination_channels_contiguous;
  params.destination_quads = plan.destination_quads;
  return params;
}

template <typename T>
void run_correlation(const CorrelationPlan& plan, const CorrelationParams<T>& params, Stream stream) {
  with_tile(plan.tile, [&](auto tile) {
    with_bool(plan.masked, [&](auto masked) {
      launch("correlation", convt3d_correlation<T, tile(), masked()>, params.tiles,
             Tile<tile(), Accumulator<T>>::kThreads, stream, params);
    });
  });
}

template <typename T>
void forward(const Problem& problem, const CorrelationPlan& plan, ConstTensor input, ConstTensor weight,
             const Epilogue& epilogue, MutableTensor output, void* workspace, Stream stream) {
  if (plan.has_empty_phase) {
    const Int3 size = problem.output_size();
    FillParams<T> fill{};
    fill.output = static_cast<T*>(output.data);
    fill.channels = problem.out_channels;
    fill.elements = problem.batch * problem.out_channels * size[0] * size[1] * size[2];
    fill.channel_stride = output.stride[1];
    fill.epilogue = epilogue;
    if (epilogue.bias.data == nullptr) {
      check_cuda(cudaMemsetAsync(output.data, 0, fill.elements * sizeof(T), static_cast<cudaStream_t>(stream)),
                 "filling the output");
    } else {
      launch("filling the output", convt3d_fill<T>, ceil_div(fill.elements, kElementwiseThreads * kQuad),
             kElementwiseThreads, stream, fill);
    }
  }
  const T* packed = pack_weight<T>(problem, plan, weight, WeightOrder::kInputIsK, workspace, stream);
  CorrelationParams<T> params =
      correlation_params<T>(plan, make_source<T>(input, {}, problem.input_size, plan.source), packed, output);
  params.epilogue = epilogue;
  run_correlation(plan, params, stream);
}

template <typename T>
void input_grad(const Problem& problem, const CorrelationPlan& plan, ConstTensor grad_output, ConstTensor relu_output,
                ConstTensor weight, MutableTensor grad_input, void* workspace, Stream stream) {
  const T* packed = pack_weight<T>(problem, plan, weight, WeightOrder::kOutputIsK, workspace, stream);
  const Source<T> source = make_source<T>(grad_output, relu_output, problem.output_size(), plan.source);
  run_correlation(plan, correlation_params<T>(plan, source, packed, grad_input), stream);
}

}  // namespace convt3d::simt
