// Depthwise forward, channels contiguous in the output, any taps, channel multipliers and input strides: a thread owns
// a quad of channels at several outputs of one residue along the width, which share their taps.
#pragma once

#include "engines/depthwise/channel_weights.cuh"

namespace convt3d {

template <typename T>
__global__ __launch_bounds__(kDepthwiseThreads,
                             4) void convt3d_depthwise_channels_any(const __grid_constant__ DepthwiseParams<T> params) {
  using Acc = Accumulator<T>;
  constexpr int kRun = depthwise_run(sizeof(T), false);
  const DepthwisePlan& plan = params.plan;
  const DepthwiseAxis& depth = plan.axis[0];
  const DepthwiseAxis& height = plan.axis[1];
  const DepthwiseAxis& width = plan.axis[2];
  const Strides& from = params.source.stride;
  const Strides& to = params.destination_stride;
  const DepthwiseChannelShare share(plan);
  const int32_t channels_left = min(plan.groups * plan.out_channels - share.channel, kQuad);
  const DepthwiseChannelWeights<T, int32_t> weights(depthwise_weight_pitch(plan.lanes, sizeof(Acc)));
  weights.template stage<false>(params, share.lane_tile);
  if (channels_left <= 0) return;

  const T* const source = params.source.data + share.image * from.n;
  T* const destination = params.destination + share.image * to.n + share.channel * to.c;
  int32_t in_channel[kQuad];  // the first of its group
#pragma unroll
  for (int i = 0; i < kQuad; ++i) {
    in_channel[i] = (share.channel + min(i, channels_left - 1)) / plan.out_channels * plan.in_channels;
  }

  const int32_t items_end = share.items_end(plan);
#pragma unroll 1
  for (int32_t item = share.item; item < items_end; item += plan.slots) {
    const int32_t row = plan.by_units[2].quotient(item);
    const int32_t unit_w = plan.by_units[2].remainder(item, row);
    const int32_t out_d = plan.by_units[1].quotient(row);
    const int32_t out_h = plan.by_units[1].remainder(row, out_d);
    const DepthwiseOutput output_d(depth, out_d);
    const DepthwiseOutput output_h(height, out_h);
    const DepthwiseOutput run_w(width, unit_w);
    const DepthwiseResidue& taps_d = output_d.taps;
    const DepthwiseResidue& taps_h = output_h.taps;
    const DepthwiseResidue& taps_w = run_w.taps;

    // Two levels keep the rounding of long sums small.
    Acc sum[kRun][kQuad];
    const Quad<Acc> bias = weights.bias(share.lane_channel);
#pragma unroll
    for (int u = 0; u < kRun; ++u) {
#pragma unroll
      for (int i = 0; i < kQuad; ++i) sum[u][i] = bias.value[i];
    }
#pragma unroll 1
    for (int c = 0; c < plan.in_channels; ++c) {
#pragma unroll 1
      for (int j = 0; j < taps_d.tap_count; ++j) {
        const int32_t in_d = output_d.u + taps_d.first_offset + j * depth.offset_step;
        if (!depthwise_inside(in_d, depth.src_size)) continue;
        const int32_t tap_d = taps_d.first_tap + j * depth.tap_step;
        Acc part[kRun][kQuad] = {};
#pragma unroll 1
        for (int k = 0; k < taps_h.tap_count; ++k) {
          const int32_t in_h = output_h.u + taps_h.first_offset + k * height.offset_step;
          if (!depthwise_inside(in_h, height.src_size)) continue;
          const int32_t tap_h = taps_h.first_tap + k * height.tap_step;
          int32_t tap_row = ((c * depth.taps + tap_d) * height.taps + tap_h) * width.taps + taps_w.first_tap;
          int32_t in_w = run_w.u * kRun + taps_w.first_offset;
          const T* place = source + c * from.c + from.spatial(in_d, in_h, in_w);
#pragma unroll 1
          for (int l = 0; l < taps_w.tap_count;
               ++l, in_w += width.offset_step, tap_row += width.tap_step, place += width.offset_step * from.w) {
            const Quad<Acc> weight = weights.quad(tap_row, share.lane_channel);
            const T* position = place;
#pragma unroll
            for (int u = 0; u < kRun; ++u, position += from.w) {
              Quad<T> value = zero_quad<T>();
              if (depthwise_inside(in_w + u, width.src_size)) {
                if (params.source_vectors) {
                  value = load_quad_vector(position + share.channel);
                } else {
#pragma unroll
                  for (int i = 0; i < kQuad; ++i) value.value[i] = __ldg(position + in_channel[i] * from.c);
                }
              }
#pragma unroll
              for (int i = 0; i < kQuad; ++i) part[u][i] += to_accumulator(value.value[i]) * weight.value[i];
            }
          }
        }
#pragma unroll
        for (int u = 0; u < kRun; ++u) {
#pragma unroll
          for (int i = 0; i < kQuad; ++i) sum[u][i] += part[u][i];
        }
      }
    }
    activate(params.epilogue, &sum[0][0], kRun * kQuad);
#pragma unroll
    for (int u = 0; u < kRun; ++u) {
      const int32_t out_w = (run_w.u * kRun + u) * width.stride + run_w.residue;
      if (out_w >= width.dst_size) break;
      Quad<T> quad;
#pragma unroll
      for (int i = 0; i < kQuad; ++i) quad.value[i] = from_accumulator<T>(sum[u][i]);
      T* const place = destination + to.spatial(out_d, out_h, out_w);
      if (params.destination_vectors) {
        store_quad_vector(place, quad);
      } else {
#pragma unroll
        for (int i = 0; i < kQuad; ++i) {
          if (i < channels_left) place[i * to.c] = quad.value[i];
        }
      }
    }
  }
}

}  // namespace convt3d
