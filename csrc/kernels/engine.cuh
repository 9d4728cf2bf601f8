// Plan -> kernel parameters -> launches, for one element type.
#pragma once

#include <type_traits>

#include "access.h"
#include "depthwise_access.h"
#include "halo_boxes.h"
#include "integer.h"
#include "kernels/dispatch.cuh"
#include "kernels/engine.h"
#include "kernels/fill_kernel.cuh"
#include "kernels/pack_weight.cuh"
#include "kernels/tensor_map.h"

namespace convt3d {

template <typename T>
constexpr DataType kDataType = std::is_same_v<T, double>   ? DataType::kFloat64
                               : std::is_same_v<T, float>  ? DataType::kFloat32
                               : std::is_same_v<T, __half> ? DataType::kFloat16
                                                           : DataType::kBFloat16;

static_assert(kAccessQuad == kQuad);

constexpr int kElementwiseThreads = 256;

inline Strides to_strides(const std::array<int64_t, 5>& stride) {
  return {stride[0], stride[1], stride[2], stride[3], stride[4]};
}

template <typename T>
Source<T> make_source(ConstTensor tensor, ConstTensor mask, const Int3& size, int64_t channels_per_group) {
  Source<T> source{};
  source.data = static_cast<const T*>(tensor.data);
  source.mask = static_cast<const T*>(mask.data);
  source.stride = to_strides(tensor.stride);
  source.mask_stride = to_strides(mask.stride);
  for (int i = 0; i < 3; ++i) source.size[i] = static_cast<int32_t>(size[i]);
  source.pieces = has_pieces(tensor, sizeof(T), channels_per_group, 16 / sizeof(T));
  source.quads = has_quads(tensor, mask, sizeof(T), channels_per_group);
  return source;
}

// Which strides of the weight [C_in, C_out/groups, ...] are those of the summed channel (K) and the written one (N).
enum class WeightOrder { kInputIsK, kOutputIsK };

template <typename T>
T* pack_weight(const Problem& problem, const CorrelationPlan& plan, ConstTensor weight, WeightOrder order,
               void* workspace, Stream stream) {
  PackWeightParams<T> params{};
  params.weight = static_cast<const T*>(weight.data);
  params.group_stride = problem.in_channels_per_group() * weight.stride[0];
  params.k_stride = weight.stride[order == WeightOrder::kInputIsK ? 0 : 1];
  params.n_stride = weight.stride[order == WeightOrder::kInputIsK ? 1 : 0];
  for (int i = 0; i < 3; ++i) {
    params.tap_stride[i] = weight.stride[2 + i];
    params.kernel[i] = static_cast<int32_t>(problem.kernel_size[i]);
  }
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
  params.destination_channels_contiguous = destination.stride[1] == 1;
  params.destination_quads = has_quads(as_const(destination), sizeof(T), plan.n_channels);
  return params;
}

template <typename T>
void forward_halo(const Problem& problem, const HaloPlan& plan, ConstTensor input, ConstTensor weight, ConstVector bias,
                  Activation activation, MutableTensor output, void* workspace, Stream stream) {
  PackHaloWeightParams<T> pack{};
  if (plan.packed_bytes > 0) {
    pack.plan = plan;
    pack.weight = static_cast<const T*>(weight.data);
    pack.stride = to_strides(weight.stride);
    pack.packed = static_cast<unsigned char*>(workspace);
    pack.counters = reinterpret_cast<uint32_t*>(pack.packed + plan.packed_bytes);
    share_packing(pack);
    run_halo_packing(pack, stream);
  }

  HaloParams<T> params{};
  params.plan = plan;
  params.source = make_source<T>(input, {}, problem.input_size, plan.in_channels);
  params.weight = pack.packed;
  params.items = static_cast<uint32_t>(plan.items());
  const HaloGrid grid = halo_grid(plan, device_facts().multiprocessors);
  params.weight_classes = grid.weight_classes;
  params.lag_clocks = lag_clocks(plan);
  params.counters = pack.counters;
  params.bias = static_cast<const T*>(bias.data);
  params.bias_stride = bias.stride;
  params.destination = static_cast<T*>(output.data);
  params.destination_stride = to_strides(output.stride);
  params.destination_channels_contiguous = output.stride[1] == 1;
  params.relu = activation == Activation::kRelu;
  TensorBox box{};
  params.load = choose_load(problem, plan, kDataType<T>, input, box);
  if (params.load != HaloLoad::kThreads && !encode(box, params.boxes)) params.load = HaloLoad::kThreads;
  params.boxes_out = stores_boxes(problem, plan, kDataType<T>, output);
  for (int i = 0; params.boxes_out && i < output_boxes(plan); ++i) {
    params.boxes_out = encode(output_box(problem, plan, kDataType<T>, output, i), params.out[i]);
  }
  run_halo_forward(params, grid.blocks, stream);
}

template <typename T>
void forward_depthwise(const Problem& problem, const DepthwisePlan& plan, ConstTensor input, ConstTensor weight,
                       ConstVector bias, Activation activation, MutableTensor output, Stream stream) {
  DepthwiseParams<T> params{};
  params.plan = plan;
  params.source = make_source<T>(input, {}, problem.input_size, problem.in_channels_per_group());
  for (int i = 0; i < 3; ++i) {
    params.source_step[i] = input.stride[2 + i] * static_cast<int64_t>(sizeof(T));
    params.destination_step[i] = output.stride[2 + i] * static_cast<int64_t>(sizeof(T));
    if (i < 2) params.tap_step[i] = plan.axis[i].offset_step * params.source_step[i];
  }
  params.weight = static_cast<const T*>(weight.data);
  params.weight_stride = to_strides(weight.stride);
  params.bias = static_cast<const T*>(bias.data);
  params.bias_stride = bias.stride;
  params.destination = static_cast<T*>(output.data);
  params.destination_stride = to_strides(output.stride);
  params.relu = activation == Activation::kRelu;
  const DepthwiseAccess access = choose_access(problem, plan, kDataType<T>, input, output);
  params.source_vectors = access.source_vectors;
  params.destination_vectors = access.destination_vectors;
  if (!access.regular) params.plan = plan_depthwise_forward(problem, sizeof(T), plan.channels, false);
  run_depthwise(params, stream);
}

template <typename T>
void Engine<T>::forward(const Problem& problem, const ForwardPlan& forward_plan, ConstTensor input, ConstTensor weight,
                        ConstVector bias, Activation activation, MutableTensor output, void* workspace, Stream stream) {
  if (forward_plan.engine == ForwardEngine::kDepthwise) {
    forward_depthwise<T>(problem, forward_plan.depthwise, input, weight, bias, activation, output, stream);
    return;
  }
  if constexpr (!std::is_same_v<T, double>) {
    if (forward_plan.engine == ForwardEngine::kHaloWgmma) {
      forward_halo<T>(problem, forward_plan.halo, input, weight, bias, activation, output, workspace, stream);
      return;
    }
  }
  const CorrelationPlan& plan = forward_plan.simt;
  const bool relu = activation == Activation::kRelu;
  if (plan.has_empty_phase) {
    const Int3 size = problem.output_size();
    FillParams<T> fill{};
    fill.output = static_cast<T*>(output.data);
    fill.channels = problem.out_channels;
    fill.elements = problem.batch * problem.out_channels * size[0] * size[1] * size[2];
    fill.channel_stride = output.stride[1];
    fill.bias = static_cast<const T*>(bias.data);
    fill.bias_stride = bias.stride;
    fill.relu = relu;
    if (bias.data == nullptr) {
      check_cuda(cudaMemsetAsync(output.data, 0, fill.elements * sizeof(T), static_cast<cudaStream_t>(stream)),
                 "filling the output");
    } else {
      launch("filling the output", convt3d_fill<T>, ceil_div(fill.elements, kElementwiseThreads * kQuad),
             kElementwiseThreads, stream, fill);
    }
  }
  const T* packed = pack_weight<T>(problem, plan, weight, WeightOrder::kInputIsK, workspace, stream);
  CorrelationParams<T> params = correlation_params<T>(
      plan, make_source<T>(input, {}, problem.input_size, problem.in_channels_per_group()), packed, output);
  params.bias = static_cast<const T*>(bias.data);
  params.bias_stride = bias.stride;
  params.relu = relu;
  run_correlation(plan.tile, params, stream);
}

template <typename T>
void Engine<T>::input_grad(const Problem& problem, ConstTensor grad_output, ConstTensor relu_output, ConstTensor weight,
                           MutableTensor grad_input, void* workspace, Stream stream) {
  const CorrelationPlan plan = plan_input_grad(problem, kDataType<T>);
  const T* packed = pack_weight<T>(problem, plan, weight, WeightOrder::kOutputIsK, workspace, stream);
  const Source<T> source =
      make_source<T>(grad_output, relu_output, problem.output_size(), problem.out_channels_per_group());
  run_correlation(plan.tile, correlation_params<T>(plan, source, packed, grad_input), stream);
}

template <typename T>
void Engine<T>::weight_grad(const Problem& problem, ConstTensor grad_output, ConstTensor relu_output, ConstTensor input,
                            MutableTensor grad_weight, void* workspace, Stream stream) {
  const WeightGradPlan plan = plan_weight_grad(problem, kDataType<T>);
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
  params.grad_output =
      make_source<T>(grad_output, relu_output, problem.output_size(), problem.out_channels_per_group());
  params.input = make_source<T>(input, {}, problem.input_size, problem.in_channels_per_group());
  params.partial = static_cast<double*>(workspace);
  run_weight_grad(plan.tile, params, stream);

  WeightReduceParams<T> reduce{};
  reduce.partial = params.partial;
  reduce.splits = plan.splits;
  reduce.split_stride = plan.partial_elements / plan.splits;
  reduce.rows = plan.rows;
  reduce.row_channels = plan.row_channels;
  reduce.row_padded = plan.row_padded;
  reduce.n_channels = plan.n_channels;
  for (int i = 0; i < 3; ++i) reduce.kernel[i] = static_cast<int32_t>(problem.kernel_size[i]);
  reduce.grad_weight = static_cast<T*>(grad_weight.data);
  reduce.stride = to_strides(grad_weight.stride);
  launch("weight gradient reduction", convt3d_weight_reduce<T>, ceil_div(reduce.split_stride, kElementwiseThreads),
         kElementwiseThreads, stream, reduce);
}

// One axis where both tensors allow it, so that stepping through positions seldom divides.
inline void collapse_spatial(const ConstTensor& tensor, const ConstTensor& mask, const Int3& size, PositionGrid& grid) {
  if (!collapses(tensor, mask, size)) return;
  grid.extent[0] = grid.extent[1] = 1;
  grid.extent[2] = static_cast<uint32_t>(size[0] * size[1] * size[2]);
}

template <typename T>
void Engine<T>::bias_grad(const std::array<int64_t, 5>& size, ConstTensor grad_output, ConstTensor relu_output,
                          void* grad_bias, void* workspace, Stream stream) {
  const BiasGradPlan plan = plan_bias_grad(size, grad_output.stride[1] == 1);
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

  BiasReduceParams<T> reduce{};
  reduce.partial = params.partial;
  reduce.splits = plan.splits;
  reduce.channels = size[1];
  reduce.grad_bias = static_cast<T*>(grad_bias);
  launch("bias gradient reduction", convt3d_bias_reduce<T>, size[1], kBiasGradThreads, stream, reduce);
}

}  // namespace convt3d
