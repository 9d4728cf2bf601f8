// Depthwise forward, channels contiguous in input and output, every quad of them whole, one channel a group and taps
// along the width known: a thread owns a quad of channels at neighbouring positions, both residues included.
#pragma once

#include "engines/depthwise/channel_weights.cuh"

namespace convt3d {

// Blocks that share an SM, as many as need no spilled register.
template <typename Taps>
constexpr int kDepthwiseChannelBlocks = Taps::kTaps == 3 && Taps::kPadding == 1 ? 5 : 4;

template <typename T, typename Taps>
__global__ __launch_bounds__(kDepthwiseThreads, kDepthwiseChannelBlocks<Taps>) void convt3d_depthwise_channels(
    const __grid_constant__ DepthwiseParams<T> params) {
  using Acc = Accumulator<T>;
  using Bits = QuadBits<T>;
  constexpr int kRun = depthwise_run(sizeof(T), false);
  constexpr int kOutputs = kRun * Taps::kStride;
  constexpr int kWindow = kRun + Taps::kHigh - Taps::kLow;
  const DepthwisePlan& plan = params.plan;
  const DepthwiseAxis& depth = plan.axis[0];
  const DepthwiseAxis& height = plan.axis[1];
  const DepthwiseAxis& width = plan.axis[2];
  const Strides& from = params.source.stride;
  const Strides& to = params.destination_stride;
  const DepthwiseChannelShare share(plan);
  const DepthwiseChannelWeights<T, int32_t> weights(depthwise_weight_pitch(plan.lanes, sizeof(Acc)));
  weights.template stage<true>(params, share.lane_tile);
  if (share.channel >= plan.groups) return;
  const T* const source = params.source.data + share.image * from.n + share.channel;
  T* const destination = params.destination + share.image * to.n + share.channel;

  const int32_t items_end = share.items_end(plan);
#pragma unroll 1
  for (int32_t item = share.item; item < items_end; item += plan.slots) {
    const int32_t row = plan.by_units[2].quotient(item);
    const int32_t segment = plan.by_units[2].remainder(item, row);
    const int32_t out_d = plan.by_units[1].quotient(row);
    const int32_t out_h = plan.by_units[1].remainder(row, out_d);
    const DepthwiseOutput output_d(depth, out_d);
    const DepthwiseOutput output_h(height, out_h);
    const DepthwiseResidue& taps_d = output_d.taps;
    const DepthwiseResidue& taps_h = output_h.taps;
    const int32_t first_d = output_d.u + taps_d.first_offset;
    const int32_t first_h = output_h.u + taps_h.first_offset;
    const int32_t first_row = (taps_d.first_tap * height.taps + taps_h.first_tap) * Taps::kTaps;
    const int32_t walk = plan.walk * kOutputs;
    int32_t out_w = segment * walk;
    const int32_t walk_end = min(out_w + walk, width.dst_size);
    const int32_t shift_w = plan.shift[2] + Taps::kLow;
    const T* corner = source + from.spatial(first_d, first_h, out_w / Taps::kStride + shift_w);
    T* place = destination + to.spatial(out_d, out_h, out_w);

#pragma unroll 1
    for (; out_w < walk_end; out_w += kOutputs, corner += kRun * from.w) {
      const int32_t first_w = out_w / Taps::kStride + shift_w;
      Acc sum[kOutputs][kQuad];
      const Quad<Acc> bias = weights.bias(share.lane_channel);
#pragma unroll
      for (int output = 0; output < kOutputs; ++output) {
#pragma unroll
        for (int i = 0; i < kQuad; ++i) sum[output][i] = bias.value[i];
      }
      const T* plane = corner;
#pragma unroll 1
      for (int j = 0; j < taps_d.tap_count; ++j, advance_bytes(plane, params.tap_step[0])) {
        if (!depthwise_inside(first_d + j * depth.offset_step, depth.src_size)) continue;
        const int32_t plane_row = first_row + j * depth.tap_step * height.taps * Taps::kTaps;
        const T* line = plane;
#pragma unroll 1
        for (int k = 0; k < taps_h.tap_count; ++k, advance_bytes(line, params.tap_step[1])) {
          if (!depthwise_inside(first_h + k * height.offset_step, height.src_size)) continue;
          const int32_t tap_row = plane_row + k * height.tap_step * Taps::kTaps;
          Bits window[kWindow];
          const T* position = line;
#pragma unroll
          for (int i = 0; i < kWindow; ++i, position += from.w) {
            window[i] = Bits();
            if (depthwise_inside(first_w + i, width.src_size))
              window[i] = __ldg(reinterpret_cast<const Bits*>(position));
          }
          multiply_quads<Taps>(weights, share.lane_channel, tap_row, window, sum);
        }
      }
      activate(params.epilogue, &sum[0][0], kOutputs * kQuad);
#pragma unroll
      for (int output = 0; output < kOutputs; ++output, place += to.w) {
        if (out_w + output >= width.dst_size) break;
        Quad<T> quad;
#pragma unroll
        for (int i = 0; i < kQuad; ++i) quad.value[i] = from_accumulator<T>(sum[output][i]);
        store_quad_vector(place, quad);
      }
    }
  }
}

}  // namespace convt3d
