// Forward and input gradient of the engine on mma.sync.
#pragma once

#include "core/integer.h"
#include "core/weight_order.h"
#include "device/copied_source.cuh"
#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "device/overlap.cuh"
#include "engines/mma/correlation/kernel.cuh"
#include "engines/mma/correlation/run.h"
#include "engines/mma/tile/copied_range.cuh"

namespace convt3d::mma {

constexpr int kPackThreads = 256;

template <typename T>
void pack_weight(const Problem& problem, const CorrelationPlan& plan, ConstTensor weight, WeightOrder order,
                 void* workspace, Stream stream) {
  const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
  PackWeightParams<T> params{};
  params.weight = static_cast<const T*>(weight.data);
  params.stride = weight_strides(problem, weight, order);
  params.stride.group *= plan.joined;
  params.part_stride = problem.out_channels_per_group() * weight.stride[1];
  params.parts = plan.joined > 1;
  params.k_part = make_divisor(plan.k_channels / plan.joined);
  params.n_part = make_divisor(plan.n_channels / plan.joined);
  for (size_t i = 0; i < 3; ++i) {
    params.residues[i] = plan.residues[i];
    for (int16_t e = 0; e < plan.residues[i].count; ++e) {
      for (int16_t j = 0; j < plan.residues[i].tap_count[e]; ++j) {
        const int32_t tap = plan.residues[i].first_tap[e] + j * plan.residues[i].tap_step;
        params.residue_of[i][tap] = e;
        params.number_of[i][tap] = j;
      }
    }
  }
  params.k_channels = plan.k_channels;
  params.n_channels = plan.n_channels;
  params.n_blocks = plan.n_blocks;
  params.chunks = plan.chunks;
  params.chunk_steps = plan.chunk_steps;
  params.warp_n = extent.warp_n;
  params.block_n = extent.n();
  params.joined = plan.store == StoreWay::kChannels ? joined_fragments(extent.warp_n, sizeof(T)) : 0;
  params.terms = plan.terms;
  params.rounds_to_tf32 = plan.terms == 1;
  params.neighbours = plan.tile.has_channel_rows();
  params.pairs = plan.pairs;
  params.column_bits = plan.store == StoreWay::kPairs ? 1 : 0;
  params.lanes_first = plan.packs_lanes_first(params.stride);
  const int32_t pieces = extent.warp_n > 8 ? extent.warp_n / 16 : 1;
  for (size_t i = 0; i < 3; ++i) params.taps[i] = make_divisor(plan.residues[i].taps);
  params.pieces = make_divisor(pieces);
  params.warps = make_divisor(extent.warps_n);
  params.steps_of_chunk = make_divisor(plan.chunk_steps);
  params.chunks_of_block = make_divisor(plan.chunks);
  params.blocks_of_group = make_divisor(plan.n_blocks);
  params.elements = plan.packed_pieces();
  params.packed = static_cast<uint32_t*>(workspace);
  params.counters = reinterpret_cast<uint32_t*>(static_cast<unsigned char*>(workspace) + plan.counter_offset());
  params.counter_count = static_cast<int32_t>(plan.counters());
  params.beside = plan.packs_beside;
  constexpr auto kKernel = convt3d_mma_pack_weight<T>;
  launch("weight packing", kKernel, ceil_div(params.elements, kPackThreads), kPackThreads, stream, params, 0,
         params.beside ? overlapping_order("weight packing", reinterpret_cast<const void*>(kKernel))
                       : LaunchOrder::kAfter);
}

template <typename T>
StoreParams<T> store_params(const CorrelationPlan& plan, MutableTensor destination) {
  StoreParams<T> params{};
  params.batch = plan.batch;
  params.images = plan.tile.images;
  for (size_t i = 0; i < 3; ++i) {
    params.residues[i] = plan.residues[i].count;
    params.size[i] = plan.residues[i].size;
    params.box[i] = plan.box[i];
    params.boxes[i] = make_divisor(plan.boxes[i + 1]);
  }
  params.box_rows = make_box_rows(plan.order, plan.tile.images, plan.box[0], plan.box[1]);
  params.box_width = make_divisor(plan.box[2]);
  params.destination = static_cast<T*>(destination.data);
  params.destination_stride = to_strides(destination.stride);
  params.residues_alike = true;
  for (const Residues& axis : plan.residues) params.residues_alike &= axis.size % axis.count == 0;
  params.stores_channels = plan.store == StoreWay::kChannels;
  params.channel_vector = plan.channel_vector;
  params.stores_pairs = plan.store == StoreWay::kPairs;
  if (params.stores_pairs) params.destination_stride.w *= 2;
  params.channels_first = destination.stride[1] == 1 && destination.stride[4] != 1;
  params.joins_width = plan.joins_width;
  params.row_length = row_length(plan.box[2], plan.residues[2].count, plan.joins_width);
  params.stages_matrices = plan.stages_matrices;
  params.staging_pitch = plan.staging_pitch;
  params.row_vector = plan.row_vector;
  params.row_vectors = make_divisor(params.row_length / params.row_vector);
  const int64_t places = int64_t{params.box_rows.count} * params.row_vectors.value;
  params.places_at_once = make_divisor(std::min<int64_t>(places, 32 * shape_extent(plan.shape, plan.terms).warps()));
  return params;
}

// T: of the source, as the kernel reads it.
template <typename T>
CorrelationParams<T> correlation_params(const CorrelationPlan& plan, ConstTensor source, ConstTensor mask,
                                        const Int3& source_size, MutableTensor destination, void* workspace) {
  CorrelationParams<T> params{};
  params.load.source = make_source<T>(source, mask, source_size, {});
  params.load.tile = plan.tile;
  params.load.shape = plan.load;
  params.load.way = plan.way;
  params.load.batch = plan.batch;
  params.store = store_params<ElementOf<T>>(plan, destination);
  for (size_t i = 0; i < 3; ++i) params.residues[i] = plan.residues[i];
  for (size_t i = 0; i < 2; ++i) params.by_residues[i] = make_divisor(plan.residues[i + 1].count);
  for (size_t i = 0; i < 3; ++i) params.by_stages[i] = make_divisor(plan.tile.axis[i].stages());
  params.end_box = static_cast<int32_t>(plan.box_count());
  params.walkers = static_cast<int32_t>(plan.walkers);
  std::copy(plan.first_walker.begin(), plan.first_walker.end(), params.first_walker);
  auto* const bytes = static_cast<unsigned char*>(workspace);
  params.split = {plan.k_splits, plan.split_stages, static_cast<int32_t>(plan.shares()),
                  reinterpret_cast<uint32_t*>(bytes + plan.counter_offset()),
                  reinterpret_cast<float*>(bytes + plan.partial_offset())};
  params.k_channels = plan.k_channels;
  params.n_channels = plan.n_channels;
  params.chunks = plan.chunks;
  params.chunk_steps = plan.chunk_steps;
  params.splits = plan.splits();
  params.stages = plan.stages();
  params.buffers = plan.buffers;
  params.waits_for_source = plan.copy.exists || plan.source_beside;
  params.source_group = plan.source_group();
  params.only_copies = copies_only(plan.way);
  params.ahead = plan.ahead;
  params.table_bytes = plan.table_bytes();
  params.raw_bytes = static_cast<int32_t>(plan.raw_bytes());
  params.block_phases = plan.block_phases;
  params.phase_blocks = make_divisor(plan.phase_blocks());
  params.n_blocks = make_divisor(plan.n_blocks);
  params.groups = make_divisor(plan.groups);
  params.k_splits = make_divisor(plan.k_splits);
  params.layout = shared_layout(plan);
  params.weight = static_cast<const unsigned char*>(workspace);
  params.weights_stay = plan.weights_stay;
  params.slot_steps = plan.slot_steps;
  params.slots = plan.slots;
  return params;
}

template <typename T, int kTerms, Shape kShape>
void launch_correlation(const CorrelationPlan& plan, const CorrelationParams<T>& params, Stream stream) {
  const auto launch_kernel = [&](auto channel_rows) {
    if constexpr (has_shape(kShape, kTerms, decltype(channel_rows)::value, kIsPaired<T>)) {
      constexpr auto kKernel = convt3d_mma_correlation<T, kTerms, kShape, decltype(channel_rows)::value>;
      launch("correlation", kKernel, plan.blocks(), shape_extent(kShape, kTerms).threads(), stream, params,
             plan.shared_bytes, overlapping_order("correlation", reinterpret_cast<const void*>(kKernel)));
    }
  };
  if constexpr (std::is_same_v<T, float>) {
    if (plan.tile.has_channel_rows()) return launch_kernel(std::true_type{});
    return launch_kernel(std::false_type{});
  } else {
    launch_kernel(std::bool_constant<sizeof(T) == 4>{});
  }
}

template <typename T, int kTerms>
void run_shape(const CorrelationPlan& plan, const CorrelationParams<T>& params, Stream stream) {
  switch (plan.shape) {
    case Shape::k256x8:
      return launch_correlation<T, kTerms, Shape::k256x8>(plan, params, stream);
    case Shape::k256x16:
      return launch_correlation<T, kTerms, Shape::k256x16>(plan, params, stream);
    case Shape::k128x32:
      return launch_correlation<T, kTerms, Shape::k128x32>(plan, params, stream);
    case Shape::k256x32:
      return launch_correlation<T, kTerms, Shape::k256x32>(plan, params, stream);
    case Shape::k64x64:
      return launch_correlation<T, kTerms, Shape::k64x64>(plan, params, stream);
    case Shape::k128x64Wide:
      return launch_correlation<T, kTerms, Shape::k128x64Wide>(plan, params, stream);
    case Shape::k256x64Eight:
      return launch_correlation<T, kTerms, Shape::k256x64Eight>(plan, params, stream);
    case Shape::k128x128:
      return launch_correlation<T, kTerms, Shape::k128x128>(plan, params, stream);
    case Shape::k128x128Eight:
      return launch_correlation<T, kTerms, Shape::k128x128Eight>(plan, params, stream);
    case Shape::k128x64Eight:
      return launch_correlation<T, kTerms, Shape::k128x64Eight>(plan, params, stream);
  }
}

template <typename T>
void run_launch(const CorrelationPlan& plan, const CorrelationParams<T>& params, Stream stream) {
  if (plan.terms == 1) return run_shape<T, 1>(plan, params, stream);
  if constexpr (std::is_same_v<T, float>) run_shape<T, 2>(plan, params, stream);
}

// The weight is packed.
template <typename T>
void run_correlation(const CorrelationPlan& plan, CorrelationParams<T>& params, ConstTensor source, ConstTensor mask,
                     void* workspace, Stream stream) {
  if (!plan.copy.exists) return run_launch(plan, params, stream);
  void* const copy = static_cast<unsigned char*>(workspace) + plan.copy_offset();
  const int64_t count = portion_count(plan.portions, plan.boxes);
  for (int64_t number = 0; number < count; ++number) {
    const Portion portion = portion_at(plan.portions, plan.boxes, number);
    OperandCopy portion_copy = plan.copy;
    portion_copy.beside = number == 0;  // the packing, whose kernel reads nothing of it
    params.load.source = copied_source<T>(portion_copy, copied_range(plan.copy, portion, plan.tile.images, plan.batch),
                                          source, mask, copy, stream);
    params.first_box = static_cast<int32_t>(portion.first_box);
    params.end_box = static_cast<int32_t>(portion.end_box);
    run_launch(plan, params, stream);
  }
}

template <typename T>
void forward(const Problem& problem, const CorrelationPlan& plan, ConstTensor input, ConstTensor weight,
             const Epilogue& epilogue, MutableTensor output, void* workspace, Stream stream) {
  pack_weight<T>(problem, plan, weight, WeightOrder::kInputIsK, workspace, stream);
  CorrelationParams<T> params = correlation_params<T>(plan, input, {}, problem.input_size, output, workspace);
  params.store.epilogue = epilogue;
  run_correlation(plan, params, input, {}, workspace, stream);
}

template <typename T>
void input_grad(const Problem& problem, const CorrelationPlan& plan, ConstTensor grad_output, ConstTensor relu_output,
                ConstTensor weight, MutableTensor grad_input, void* workspace, Stream stream) {
  pack_weight<T>(problem, plan, weight, WeightOrder::kOutputIsK, workspace, stream);
  if constexpr (sizeof(T) == 2) {
    if (plan.reads_pairs()) {
      const CorrelationParams<WidthPair<T>> params =
          correlation_params<WidthPair<T>>(plan, width_pairs_of(grad_output), width_pairs_of(relu_output),
                                           width_pairs_of(problem.output_size()), grad_input, workspace);
      return run_launch(plan, params, stream);
    }
  }
  CorrelationParams<T> params =
      correlation_params<T>(plan, grad_output, relu_output, problem.output_size(), grad_input, workspace);
  run_correlation(plan, params, grad_output, relu_output, workspace, stream);
}

}  // namespace convt3d::mma
