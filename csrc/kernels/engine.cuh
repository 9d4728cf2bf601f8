// Plan -> kernel parameters -> launches, for one element type.
#pragma once

#include <type_traits>

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

constexpr int kElementwiseThreads = 256;

inline Strides to_strides(const std::array<int64_t, 5>& stride) {
  return {stride[0], stride[1], stride[2], stride[3], stride[4]};
}

// Channels are contiguous, and at every position each `size` of a group's channels is whole and aligned.
template <typename T>
bool has_pieces(const void* data, const std::array<int64_t, 5>& stride, int64_t channels_per_group, int64_t size) {
  for (const int i : {0, 2, 3, 4}) {
    if (stride[i] % size != 0) return false;
  }
  return stride[1] == 1 && channels_per_group % size == 0 &&
         reinterpret_cast<uintptr_t>(data) % std::min<size_t>(16, size * sizeof(T)) == 0;
}

template <typename T>
bool has_quads(const void* data, const std::array<int64_t, 5>& stride, int64_t channels_per_group) {
  return has_pieces<T>(data, stride, channels_per_group, kQuad);
}

template <typename T>
Source<T> make_source(ConstTensor tensor, ConstTensor mask, const Int3& size, int64_t channels_per_group) {
  Source<T> source{};
  source.data = static_cast<const T*>(tensor.data);
  source.mask = static_cast<const T*>(mask.data);
  source.stride = to_strides(tensor.stride);
  source.mask_stride = to_strides(mask.stride);
  for (int i = 0; i < 3; ++i) source.size[i] = static_cast<int32_t>(size[i]);
  source.pieces = has_pieces<T>(tensor.data, tensor.stride, channels_per_group, 16 / sizeof(T));
  source.quads = has_quads<T>(tensor.data, tensor.stride, channels_per_group) &&
                 (mask.data == nullptr || has_quads<T>(mask.data, mask.stride, channels_per_group));
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
  params.destination_quads = has_quads<T>(destination.data, destination.stride, plan.n_channels);
  return params;
}

// How the tiles of the input are loaded, and the boxes of it that the copy engine then reads.
template <typename T>
HaloLoad choose_load(const Source<T>& source, const Problem& problem, const HaloPlan& plan, CUtensorMap& map) {
  const Strides& stride = source.stride;
  const int32_t piece = 16 / static_cast<int32_t>(sizeof(T));
  TensorBox box{};
  box.data = source.data;
  box.type = plan.terms == 2             ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
             : std::is_same_v<T, float>  ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32  // rounds to nearest
             : std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                         : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const auto set = [&](int axis, int64_t size, int64_t step, int32_t count, int32_t fold = 1) {
    box.set(axis, size, step * static_cast<int64_t>(sizeof(T)), count, fold);
  };
  const Int3& size = problem.input_size;
  if (plan.row_log > 0 && stride.w == 1) {
    const int32_t row = 1 << plan.row_log;
    const bool whole = plan.rows_cross_widths();  // a row of the box is a part of the input's rows
    box.swizzle = box_swizzle(row * static_cast<int32_t>(sizeof(T)));
    set(0, whole ? row : size[2], 1, row);
    set(1, problem.in_channels, stride.c, plan.chunk_panels * kHaloRowChannels);
    set(2, whole ? size[1] * size[2] / row : size[1], whole ? row : stride.h, plan.halo[1] * plan.halo[2] / row);
    set(3, size[0], stride.d, plan.halo[0]);
    set(4, problem.batch, stride.n, 1);
    if ((!whole || stride.h == size[2]) && encode(box, map)) return HaloLoad::kCopyRows;
    return HaloLoad::kThreads;
  }
  if (source.pieces && plan.in_channels * sizeof(T) % plan.row_bytes == 0) {
    box.swizzle = box_swizzle(plan.row_bytes);
    set(0, problem.in_channels, 1, plan.row_bytes / static_cast<int32_t>(sizeof(T)));
    set(1, problem.batch, stride.n, 1 << plan.image_log);
    set(2, size[2], stride.w, plan.halo[2]);
    set(3, size[1], stride.h, plan.halo[1], plan.axis[1].fold);
    set(4, size[0], stride.d, plan.halo[0], plan.axis[0].fold);
    if (encode(box, map)) return HaloLoad::kCopy;
  } else if (plan.transposes() && stride.w == 1) {
    box.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
    if (plan.box_images > 0) {
      if (stride.h != size[2]) return HaloLoad::kThreads;
      const int64_t plane = size[1] * size[2];
      set(0, plane, 1, static_cast<int32_t>(plane));
      set(1, 1, stride.d, 1);
      set(2, size[0], stride.d, plan.halo[0]);
      set(3, problem.in_channels, stride.c, piece);
      set(4, problem.batch, stride.n, plan.box_images);
      return encode(box, map) ? HaloLoad::kTranspose : HaloLoad::kThreads;
    }
    set(0, size[2], 1, plan.box_width);
    set(1, size[1], stride.h, plan.box_rows, plan.axis[1].fold);
    set(2, size[0], stride.d, plan.box_depths, plan.axis[0].fold);
    set(3, problem.in_channels, stride.c, piece);
    set(4, problem.batch, stride.n, 1);
    if (encode(box, map)) return HaloLoad::kTranspose;
  }
  return HaloLoad::kThreads;
}

// The boxes that the copy engine stores, for every residue; false where there are none.
template <typename T>
bool encode_output(HaloParams<T>& params, const Problem& problem, MutableTensor output) {
  const HaloPlan& plan = params.plan;
  const HaloStaging& staging = plan.staging;
  if (!staging.boxes()) return false;
  const bool paired = plan.pair_rows || plan.width_sets();
  const int counts[3] = {plan.axis[0].stride, plan.axis[1].stride, paired ? 1 : plan.axis[2].stride};
  for (int map = 0; map < counts[0] * counts[1] * counts[2]; ++map) {
    const int residue[3] = {map / (counts[1] * counts[2]), map / counts[2] % counts[1], map % counts[2]};
    TensorBox box{};
    box.type = std::is_same_v<T, float>    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
               : std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                           : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    box.swizzle = staging.swizzle == 0 ? CU_TENSOR_MAP_SWIZZLE_NONE : box_swizzle(staging.swizzle + 16);
    T* data = static_cast<T*>(output.data);
    int64_t size[3];
    int64_t step[3];
    for (int i = 0; i < 3; ++i) {
      data += residue[i] * output.stride[2 + i];
      size[i] = (problem.output_size(i) - 1 - residue[i]) / counts[i] + 1;
      step[i] = counts[i] * output.stride[2 + i] * static_cast<int64_t>(sizeof(T));
    }
    box.data = data;
    const int64_t channel_step = output.stride[1] * static_cast<int64_t>(sizeof(T));
    const int64_t image_step = output.stride[0] * static_cast<int64_t>(sizeof(T));
    if (params.destination_channels_contiguous) {
      box.set(0, problem.out_channels, channel_step, plan.slab_channels);
      box.set(1, problem.batch, image_step, 1 << plan.image_log);
      box.set(2, size[2], step[2], staging.columns * (paired ? 2 : 1));
      box.set(3, size[1], step[1], staging.box_rows);
      box.set(4, size[0], step[0], 1);
    } else {
      box.set(0, size[2], step[2], staging.columns * (paired ? 2 : 1));
      box.set(1, problem.out_channels, channel_step, plan.slab_channels);
      box.set(2, size[1], step[1], staging.box_rows);
      box.set(3, size[0], step[0], 1);
      box.set(4, problem.batch, image_step, 1);
    }
    if (!encode(box, params.out[map])) return false;
  }
  return true;
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
  params.load = choose_load(params.source, problem, plan, params.boxes);
  params.boxes_out = encode_output(params, problem, output);
  run_halo_forward(params, grid.blocks, stream);
}

// Rows along the width are contiguous, and each `count` of their `size` elements is whole and aligned.
template <typename T>
bool has_row_pieces(const void* data, const std::array<int64_t, 5>& stride, int64_t size, int64_t count) {
  for (const int i : {0, 1, 2, 3}) {
    if (stride[i] % count != 0) return false;
  }
  return stride[4] == 1 && size % count == 0 && reinterpret_cast<uintptr_t>(data) % (count * sizeof(T)) == 0;
}

template <typename T>
void forward_depthwise(const Problem& problem, const DepthwisePlan& plan, ConstTensor input, ConstTensor weight,
                       ConstVector bias, Activation activation, MutableTensor output, Stream stream) {
  constexpr int kVector = depthwise_vector(sizeof(T));
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
  bool regular = false;
  if (plan.channels) {
    params.source_vectors = plan.pure() && has_quads<T>(input.data, input.stride, problem.in_channels);
    params.destination_vectors = has_quads<T>(output.data, output.stride, problem.out_channels);
    regular = params.source_vectors && params.destination_vectors;
  } else {
    const int64_t positions = std::max<int64_t>(1, kVector / problem.stride[2]);
    params.source_vectors =
        plan.shift[2] % positions == 0 && has_row_pieces<T>(input.data, input.stride, problem.input_size[2], positions);
    params.destination_vectors = has_row_pieces<T>(output.data, output.stride, problem.output_size(2), kVector);
    regular = input.stride[4] == 1 && output.stride[4] == 1;
  }
  if (!regular) params.plan = plan_depthwise_forward(problem, sizeof(T), plan.channels, false);
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
template <typename T>
void collapse_spatial(Source<T>& source, PositionGrid& grid) {
  const auto joins = [&](const Strides& stride) {
    return stride.h == stride.w * grid.extent[2] && stride.d == stride.h * grid.extent[1];
  };
  const uint64_t positions = static_cast<uint64_t>(grid.extent[0]) * grid.extent[1] * grid.extent[2];
  if (!joins(source.stride) || (source.mask != nullptr && !joins(source.mask_stride)) || positions > INT_MAX) return;
  grid.extent[0] = grid.extent[1] = 1;
  grid.extent[2] = static_cast<uint32_t>(positions);
}

template <typename T>
void Engine<T>::bias_grad(const std::array<int64_t, 5>& size, ConstTensor grad_output, ConstTensor relu_output,
                          void* grad_bias, void* workspace, Stream stream) {
  const BiasGradPlan plan = plan_bias_grad(size, grad_output.stride[1] == 1);
  BiasGradParams<T> params{};
  params.grad_output = make_source<T>(grad_output, relu_output, {size[2], size[3], size[4]}, size[1]);
  params.grid = {size[0],
                 {static_cast<uint32_t>(size[2]), static_cast<uint32_t>(size[3]), static_cast<uint32_t>(size[4])}};
  collapse_spatial(params.grad_output, params.grid);
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
