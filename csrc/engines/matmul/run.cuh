// The launch of the matmul engine: which of the kernels, and its parameters.
#pragma once

#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "device/overlap.cuh"
#include "engines/matmul/kernel.cuh"
#include "engines/matmul/run.h"

namespace convt3d::matmul {

// Hands `function` the plan's tile, whether it has teams, and splits, rows and terms, as values of types of their own.
template <typename T, Operator kOp, typename Function>
void with_kernel(const MatmulPlan& plan, Function&& function) {
  const auto with_terms = [&](auto tile, auto teams, auto splits, auto rows) {
    if constexpr (sizeof(T) == 4) {
      if (plan.terms == 2) return function(tile, teams, splits, rows, std::integral_constant<int, 2>());
    }
    return function(tile, teams, splits, rows, std::integral_constant<int, 1>());
  };
  const auto with_rows = [&](auto tile, auto teams, auto splits) {
    using Channels = std::integral_constant<MatmulRows, MatmulRows::kChannels>;
    if (plan.rows == MatmulRows::kChannels) return with_terms(tile, teams, splits, Channels());
    if constexpr (kOp == Operator::kForward) {
      return with_terms(tile, teams, splits, std::integral_constant<MatmulRows, MatmulRows::kPositions>());
    } else {
      if (plan.rows == MatmulRows::kPairs)
        return with_terms(tile, teams, splits, std::integral_constant<MatmulRows, MatmulRows::kPairs>());
      return with_terms(tile, teams, splits, std::integral_constant<MatmulRows, MatmulRows::kWords>());
    }
  };
  const auto with_splits = [&](auto tile, auto teams) {
    if constexpr (kOp == Operator::kInputGrad) {  // whose K is long
      if (plan.splits > 1) return with_rows(tile, teams, std::true_type());
    }
    return with_rows(tile, teams, std::false_type());
  };
  switch (plan.tile) {
    case MatmulTile::k64x64:
      if (plan.teams > 1)
        return with_splits(std::integral_constant<MatmulTile, MatmulTile::k64x64>(), std::true_type());
      return with_splits(std::integral_constant<MatmulTile, MatmulTile::k64x64>(), std::false_type());
    case MatmulTile::k128x128:
      return with_splits(std::integral_constant<MatmulTile, MatmulTile::k128x128>(), std::false_type());
  }
}

template <typename T, Operator kOp>
void run(const MatmulPlan& plan, ConstTensor source, ConstTensor weight, const Epilogue& epilogue, MutableTensor result,
         void* workspace, Stream stream) {
  MatmulParams<T> params{};
  params.source = static_cast<const T*>(source.data);
  params.weight = static_cast<const T*>(weight.data);
  params.result = static_cast<T*>(result.data);
  params.source_stride = to_strides(source.stride);
  params.result_stride = to_strides(result.stride);
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
  params.by_splits = make_divisor(plan.splits);
  if (plan.splits > 1) {
    params.counters = static_cast<uint32_t*>(workspace);
    params.partial = reinterpret_cast<float*>(static_cast<unsigned char*>(workspace) + plan.partial_offset());
    launch("counters of splits", convt3d_matmul_begin_counters, 1, kMatmulCountingThreads, stream,
           MatmulCounters{params.counters, static_cast<int32_t>(plan.counters())});
  }
  with_kernel<T, kOp>(plan, [&](auto tile, auto teams, auto splits, auto rows, auto terms) {
    auto* const kernel = convt3d_matmul<T, kOp, decltype(tile)::value, decltype(teams)::value, decltype(splits)::value,
                                        decltype(rows)::value, decltype(terms)::value>;
    constexpr const char* kName = "matrix product";
    launch(kName, kernel, plan.blocks(), plan.threads(), stream, params, plan.shared_bytes,
           overlapping_order(kName, reinterpret_cast<const void*>(kernel)));
  });
}

template <typename T>
void forward(const MatmulPlan& plan, ConstTensor input, ConstTensor weight, const Epilogue& epilogue,
             MutableTensor output, Stream stream) {
  run<T, Operator::kForward>(plan, input, weight, epilogue, output, nullptr, stream);
}

template <typename T>
void input_grad(const MatmulPlan& plan, ConstTensor grad_output, ConstTensor weight, MutableTensor grad_input,
                void* workspace, Stream stream) {
  run<T, Operator::kInputGrad>(plan, grad_output, weight, {}, grad_input, workspace, stream);
}

}  // namespace convt3d::matmul
