// Depthwise forward, channels contiguous as in channels_kernel.cuh, where depth and height have the width's
// taps and stride 2: a thread owns a quad of channels at the outputs of both residues of each axis, which read the same
// input, and so loads each quad of it once for all of them.
#pragma once

#include "engines/depthwise/channel_weights.cuh"

namespace convt3d {

// Blocks that share an SM, as many as need no spilled register, which depends on what ptxas makes of the architecture.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900
constexpr int kDepthwiseHalfPairBlocks = 3;
#else
constexpr int kDepthwiseHalfPairBlocks = 4;
#endif
template <typename T, typename Taps>
constexpr int kDepthwiseChannelPairBlocks =
    (std::is_same_v<T, __half> ? kDepthwiseHalfPairBlocks : 3) - (Taps::kTaps == 4 ? 1 : 0);

template <typename T, typename Taps>
__global__
__launch_bounds__(kDepthwiseThreads, kDepthwiseChannelPairBlocks<T, Taps>) void convt3d_depthwise_channel_pairs(
    const __grid_constant__ DepthwiseParams<T> params) {
  using Acc = Accumulator<T>;
  using Bits = QuadBits<T>;
  constexpr int kRun = kDepthwisePairRun;
  constexpr int kOutputs = 2 * kRun;
  constexpr int kOffsets = Taps::kHigh - Taps::kLow + 1;
  constexpr int kWindow = kRun + kOffsets - 1;
  const DepthwisePlan& plan = params.plan;
  const DepthwiseAxis& depth = plan.axis[0];
  const DepthwiseAxis& height = plan.axis[1];
  const DepthwiseAxis& width = plan.axis[2];
  const Strides& from = params.source.stride;
  const Strides& to = params.destination_stride;
  using Pitch = std::integral_constant<int32_t, depthwise_weight_pitch(kDepthwisePairLanes, sizeof(Acc))>;
  const DepthwiseChannelShare share(plan);
  const DepthwiseChannelWeights<T, Pitch> weights{Pitch()};
  weights.template stage<true>(params, share.lane_tile);
  if (share.channel >= plan.groups) return;
  const T* const source = params.source.data + share.image * from.n + share.channel;
  T* const destination = params.destination + share.image * to.n + share.channel;

  const int32_t items_end = share.items_end(plan);
#pragma unroll 1
  for (int32_t item = share.item; item < items_end; item += plan.slots) {
    const int32_t row = plan.by_units[2].quotient(item);
    const int32_t segment = plan.by_units[2].remainder(item, row);
    const int32_t u_d = plan.by_units[1].quotient(row);
    const int32_t u_h = plan.by_units[1].remainder(row, u_d);
    const int32_t first_d = u_d + plan.shift[0] + Taps::kLow;
    const int32_t first_h = u_h + plan.shift[1] + Taps::kLow;
    const int32_t walk = plan.walk * kOutputs;
    int32_t out_w = segment * walk;
    const int32_t walk_end = min(out_w + walk, width.dst_size);
    int32_t first_w = out_w / 2 + plan.shift[2] + Taps::kLow;
    const T* corner = source + from.spatial(first_d, first_h, first_w);
    T* place = destination + to.spatial(2 * u_d, 2 * u_h, out_w);

#pragma unroll 1
    for (; out_w < walk_end; out_w += kOutputs, first_w += kRun, corner += kRun * from.w, place += kOutputs * to.w) {
      Acc sum[2][2][kOutputs][kQuad];  // residues of depth and height, outputs along the width, channels
      const Quad<Acc> bias = weights.bias(share.lane_channel);
#pragma unroll
      for (int output = 0; output < 4 * kOutputs; ++output) {
#pragma unroll
        for (int i = 0; i < kQuad; ++i) (&sum[0][0][0])[output][i] = bias.value[i];
      }
      const T* plane = corner;
#pragma unroll
      for (int j = 0; j < kOffsets; ++j, advance_bytes(plane, params.source_step[0])) {
        // Loads of all rows ahead of their products, without a branch: zero outside.
        Bits window[kOffsets][kWindow];
        const T* line = plane;
#pragma unroll
        for (int k = 0; k < kOffsets; ++k, advance_bytes(line, params.source_step[1])) {
          const bool inside =
              depthwise_inside(first_d + j, depth.src_size) && depthwise_inside(first_h + k, height.src_size);
          const T* position = line;
#pragma unroll
          for (int i = 0; i < kWindow; ++i, advance_bytes(position, params.source_step[2])) {
            window[k][i] = Bits();
            if (inside && depthwise_inside(first_w + i, width.src_size)) {
              window[k][i] = __ldg(reinterpret_cast<const Bits*>(position));
            }
          }
        }
#pragma unroll
        for (int k = 0; k < kOffsets; ++k) {
          for_each_residue_pair<Taps>(j + Taps::kLow, k + Taps::kLow, [&](int d, int h, int weight_row) {
            multiply_quads<Taps>(weights, share.lane_channel, weight_row * Taps::kTaps, window[k], sum[d][h]);
          });
        }
      }
      activate(params.epilogue, &sum[0][0][0][0], 4 * kOutputs * kQuad);
      T* out_plane = place;
#pragma unroll
      for (int d = 0; d < 2; ++d, advance_bytes(out_plane, params.destination_step[0])) {
        T* line = out_plane;
#pragma unroll
        for (int h = 0; h < 2; ++h, advance_bytes(line, params.destination_step[1])) {
          if (2 * u_d + d >= depth.dst_size || 2 * u_h + h >= height.dst_size) continue;
          T* position = line;
#pragma unroll
          for (int output = 0; output < kOutputs; ++output, advance_bytes(position, params.destination_step[2])) {
            if (out_w + output >= width.dst_size) break;
            Quad<T> quad;
#pragma unroll
            for (int i = 0; i < kQuad; ++i) quad.value[i] = from_accumulator<T>(sum[d][h][output][i]);
            store_quad_vector(position, quad);
          }
        }
      }
    }
  }
}

}  // namespace convt3d
