// The launch of the matmul engine: which of the kernels, and its parameters.
#pragma once

#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "device/overlap.cuh"
#include "engines/matmul/kernel.cuh"
#include "engines/matmul/run.h"

namespace convt3d::matmul {

// Hands `function` the plan's tile, rows and terms, as values of types of their own.
template <typename T, typename Function>
void with_kernel(const MatmulPlan& plan, Function&& function) {
  const auto with_terms = [&](auto tile, auto rows) {
    if constexpr (sizeof(T) == 4) {
      if (plan.terms == 2) return function(tile, rows, std::integral_constant<int, 2>());
    }
    return function(tile, rows, std::integral_constant<int, 1>());
  };
  const auto with_rows = [&](auto tile) {
    if (plan.rows == MatmulRows::kChannels)
      return with_terms(tile, std::integral_constant<MatmulRows, MatmulRows::kChannels>());
    return with_terms(tile, std::integral_constant<MatmulRows, MatmulRows::kPositions>());
  };
  switch (plan.tile) {
    case MatmulTile::k64x64:
      return with_rows(std::integral_constant<MatmulTile, MatmulTile::k64x64>());
    case MatmulTile::k128x128:
      return with_rows(std::integral_constant<MatmulTile, MatmulTile::k128x128>());
  }
}

template <typename T>
void forward(const MatmulPlan& plan, ConstTensor input, ConstTensor weight, const Epilogue& epilogue,
             MutableTensor output, Stream stream) {
  MatmulParams<T> params{};
  params.input = static_cast<const T*>(input.data);
  params.weight = static_cast<const T*>(weight.data);
  params.output = static_cast<T*>(output.data);
  params.input_stride = to_strides(input.stride);
  params.output_stride = to_strides(output.stride);
  params.weight_stride = weight.stride[0];
  params.epilogue = epilogue;
  params.plan = plan;
  params.layout = matmul_layout(plan);
  for (size_t i = 0; i < 3; ++i) {
    params.by_size[i] = make_divisor(plan.size[2 - i]);
    params.by_taps[i] = make_divisor(plan.taps[2 - i]);
  }
  params.by_volume = make_divisor(plan.size[0] * plan.size[1] * plan.size[2]);
  params.by_all_taps = make_divisor(plan.taps[0] * plan.taps[1] * plan.taps[2]);
  params.by_channels = make_divisor(plan.out_channels);
  params.by_n_tiles = make_divisor(plan.n_tiles);
  params.by_shares = make_divisor(int64_t{plan.groups} * plan.n_tiles);
  with_kernel<T>(plan, [&](auto tile, auto rows, auto terms) {
    auto* const kernel = convt3d_matmul<T, decltype(tile)::value, decltype(rows)::value, decltype(terms)::value>;
    constexpr const char* kName = "matrix product";
    launch(kName, kernel, plan.blocks(), plan.extent().threads(), stream, params, plan.shared_bytes,
           overlapping_order(kName, reinterpret_cast<const void*>(kernel)));
  });
}

}  // namespace convt3d::matmul
