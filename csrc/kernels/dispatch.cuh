// The one place that turns run-time values (tile, mask) into template arguments.
#pragma once

#include "kernels/bias_grad_kernel.cuh"
#include "kernels/correlation_kernel.cuh"
#include "kernels/depthwise_channel_pairs_kernel.cuh"
#include "kernels/depthwise_channels_any_kernel.cuh"
#include "kernels/depthwise_channels_kernel.cuh"
#include "kernels/depthwise_row_pairs_kernel.cuh"
#include "kernels/depthwise_rows_any_kernel.cuh"
#include "kernels/depthwise_rows_kernel.cuh"
#include "kernels/halo_kernel.cuh"
#include "kernels/launch.cuh"
#include "kernels/pack_halo_weight.cuh"
#include "kernels/weight_grad_kernel.cuh"

namespace convt3d {

template <TileShape kShape>
using ShapeConstant = std::integral_constant<TileShape, kShape>;

template <typename Function>
void with_tile(TileShape shape, Function&& function) {
  switch (shape) {
    case TileShape::kNarrow:
      return function(ShapeConstant<TileShape::kNarrow>());
    case TileShape::kSlim:
      return function(ShapeConstant<TileShape::kSlim>());
    case TileShape::kMedium:
      return function(ShapeConstant<TileShape::kMedium>());
    case TileShape::kWide:
      return function(ShapeConstant<TileShape::kWide>());
  }
}

template <typename Function>
void with_bool(bool value, Function&& function) {
  if (value) {
    function(std::true_type());
  } else {
    function(std::false_type());
  }
}

template <typename T>
void run_correlation(TileShape shape, const CorrelationParams<T>& params, Stream stream) {
  with_tile(shape, [&](auto tile) {
    with_bool(params.source.mask != nullptr, [&](auto masked) {
      launch("correlation", convt3d_correlation<T, tile(), masked()>, params.tiles,
             Tile<tile(), Accumulator<T>>::kThreads, stream, params);
    });
  });
}

template <typename T>
void run_halo_packing(const PackHaloWeightParams<T>& params, Stream stream) {
  launch("weight packing", convt3d_pack_halo_weight<T>, ceil_div(params.threads, kPackHaloThreads), kPackHaloThreads,
         stream, params);
}

// Of one term.
template <typename T, int kN, int kSets>
auto halo_forward_kernel(HaloLoad load) -> void (*)(HaloParams<T>) {
  if constexpr (sizeof(T) == 2 && halo_multiplies_rows(kN, kSets)) {
    if (load == HaloLoad::kCopyRows) return convt3d_halo_forward<T, kN, kSets, 1, true>;
  }
  return convt3d_halo_forward<T, kN, kSets, 1, false>;
}

template <typename T>
void run_halo_forward(const HaloParams<T>& params, int64_t blocks, Stream stream) {
  const HaloPlan& plan = params.plan;
  const auto kernel = [&]() -> void (*)(HaloParams<T>) {
    if constexpr (std::is_same_v<T, float>) {
      if (plan.terms == 2) {
        if (plan.sets == 2) {
          return plan.n == 80 ? convt3d_halo_forward<T, 80, 2, 2, false> : convt3d_halo_forward<T, 64, 2, 2, false>;
        }
        return plan.n == 128 ? convt3d_halo_forward<T, 128, 1, 2, false> : convt3d_halo_forward<T, 64, 1, 2, false>;
      }
    }
    if (plan.sets == 2) {
      if (plan.n == 80) return halo_forward_kernel<T, 80, 2>(params.load);
      return plan.n == 128 ? halo_forward_kernel<T, 128, 2>(params.load) : halo_forward_kernel<T, 64, 2>(params.load);
    }
    if (plan.n == 256) return halo_forward_kernel<T, 256, 1>(params.load);
    if (plan.n == 192) return halo_forward_kernel<T, 192, 1>(params.load);
    if (plan.n == 160) return halo_forward_kernel<T, 160, 1>(params.load);
    return plan.n == 128 ? halo_forward_kernel<T, 128, 1>(params.load) : halo_forward_kernel<T, 64, 1>(params.load);
  }();
  // Without a weight to pack, the kernel before this one is not ours.
  const LaunchOrder order = plan.packed_bytes > 0 ? LaunchOrder::kOverlapping : LaunchOrder::kAfter;
  launch("tensor-core forward", kernel, blocks, kHaloThreads, stream, params, plan.memory.bytes, order);
}

template <typename T>
void run_depthwise(const DepthwiseParams<T>& params, Stream stream) {
  const DepthwisePlan& plan = params.plan;
  auto* kernel = plan.channels ? convt3d_depthwise_channels_any<T> : convt3d_depthwise_rows_any<T>;
  if constexpr (!std::is_same_v<T, double>) {
    with_width_taps(plan.width, [&](auto taps) {
      using Taps = decltype(taps);
      kernel = plan.channels ? convt3d_depthwise_channels<T, Taps> : convt3d_depthwise_rows<T, Taps, 1>;
      if constexpr (Taps::kStride == 2) {
        const bool vectors = params.source_vectors && params.destination_vectors;
        if (plan.paired && plan.channels) {
          kernel = convt3d_depthwise_channel_pairs<T, Taps>;
        } else if (plan.paired) {
          kernel = vectors ? convt3d_depthwise_row_pairs<T, Taps> : convt3d_depthwise_rows<T, Taps, 2>;
        }
      }
    });
  }
  launch("depthwise forward", kernel, plan.blocks(), kDepthwiseThreads, stream, params, plan.shared_bytes);
}

template <typename T>
void run_weight_grad(TileShape shape, const WeightGradParams<T>& params, Stream stream) {
  with_tile(shape, [&](auto tile) {
    with_bool(params.grad_output.mask != nullptr, [&](auto masked) {
      launch("weight gradient", convt3d_weight_grad<T, tile(), masked()>, params.tiles,
             Tile<tile(), Accumulator<T>>::kThreads, stream, params);
    });
  });
}

template <typename T>
void run_bias_grad(const BiasGradParams<T>& params, Stream stream) {
  with_bool(params.grad_output.mask != nullptr, [&](auto masked) {
    launch("bias gradient", convt3d_bias_grad<T, masked()>, params.channel_blocks * params.splits, kBiasGradThreads,
           stream, params);
  });
}

}  // namespace convt3d
