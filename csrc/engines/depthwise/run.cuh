// Forward of groups of a few channels: which of the kernels, and its parameters.
#pragma once

#include <type_traits>

#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "engines/depthwise/channel_pairs_kernel.cuh"
#include "engines/depthwise/channels_any_kernel.cuh"
#include "engines/depthwise/channels_kernel.cuh"
#include "engines/depthwise/row_pairs_kernel.cuh"
#include "engines/depthwise/rows_any_kernel.cuh"
#include "engines/depthwise/rows_kernel.cuh"
#include "engines/depthwise/run.h"

namespace convt3d::depthwise {

template <typename T>
void run_depthwise(const DepthwiseForwardPlan& forward, const DepthwiseParams<T>& params, Stream stream) {
  const DepthwisePlan& plan = forward.kernel;
  auto* kernel = plan.channels() ? convt3d_depthwise_channels_any<T> : convt3d_depthwise_rows_any<T>;
  if constexpr (!std::is_same_v<T, double>) {
    with_width_taps(plan.width, [&](auto taps) {
      using Taps = decltype(taps);
      kernel = plan.channels() ? convt3d_depthwise_channels<T, Taps> : convt3d_depthwise_rows<T, Taps, 1>;
      if constexpr (Taps::kStride == 2) {
        if (plan.kind == DepthwiseKind::kChannelPairs) {
          kernel = convt3d_depthwise_channel_pairs<T, Taps>;
        } else if (plan.kind == DepthwiseKind::kRowPairs) {
          kernel = forward.access.vectors()          ? convt3d_depthwise_row_pairs<T, Taps, false>
                   : forward.access.destination_runs ? convt3d_depthwise_row_pairs<T, Taps, true>
                                                     : convt3d_depthwise_rows<T, Taps, 2>;
        }
      }
    });
  }
  launch("depthwise forward", kernel, plan.blocks(), kDepthwiseThreads, stream, params, plan.shared_bytes);
}

template <typename T>
void forward(const Problem& problem, const DepthwiseForwardPlan& plan, ConstTensor input, ConstTensor weight,
             const Epilogue& epilogue, MutableTensor output, Stream stream) {
  DepthwiseParams<T> params{};
  params.plan = plan.kernel;
  params.source = make_source<T>(input, {}, problem.input_size, {});
  for (int i = 0; i < 3; ++i) {
    params.source_step[i] = input.stride[2 + i] * static_cast<int64_t>(sizeof(T));
    params.destination_step[i] = output.stride[2 + i] * static_cast<int64_t>(sizeof(T));
    if (i < 2) params.tap_step[i] = plan.kernel.axis[i].offset_step * params.source_step[i];
  }
  params.weight = static_cast<const T*>(weight.data);
  params.weight_stride = to_strides(weight.stride);
  params.destination = static_cast<T*>(output.data);
  params.destination_stride = to_strides(output.stride);
  params.epilogue = epilogue;
  params.source_vectors = plan.access.source_vectors;
  params.destination_vectors = plan.access.destination_vectors;
  run_depthwise(plan, params, stream);
}

}  // namespace convt3d::depthwise
