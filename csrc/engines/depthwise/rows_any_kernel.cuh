// Depthwise forward, width contiguous in the output, any taps: neighbouring threads own neighbouring outputs of a row,
// whatever their residues, so that every store of a warp is whole; each owns the same place in several rows of one
// residue, which share their taps.
#pragma once

#include "engines/depthwise/row_share.cuh"

namespace convt3d {

template <typename T>
__global__ __launch_bounds__(kDepthwiseThreads,
                             8) void convt3d_depthwise_rows_any(const __grid_constant__ DepthwiseParams<T> params) {
  using Acc = Accumulator<T>;
  const DepthwisePlan& plan = params.plan;
  const DepthwiseAxis& depth = plan.axis[0];
  const DepthwiseAxis& height = plan.axis[1];
  const DepthwiseAxis& width = plan.axis[2];
  const Strides& from = params.source.stride;
  const Strides& to = params.destination_stride;
  const DepthwiseRowShare share(plan);
  Acc* const weights = reinterpret_cast<Acc*>(dynamic_shared_memory);
  stage_row_weights(params, share.channel, width.taps, weights);
  const T* const source = params.source.data + share.image * from.n + share.in_channel * from.c;
  T* const destination = params.destination + share.image * to.n + share.channel * to.c;
  const Acc bias = bias_of<T>(params.epilogue, share.channel);
  const int32_t out_w = share.lane;
  if (out_w >= width.dst_size) return;
  const DepthwiseResidue taps_w = width.residue[out_w % width.stride];
  const int32_t first_w = out_w / width.stride + taps_w.first_offset;

  const int32_t items_end = share.items_end(plan);
#pragma unroll 1
  for (int32_t item = share.item; item < items_end; item += plan.slots) {
    const int32_t out_d = plan.by_units[1].quotient(item);
    const int32_t unit_h = plan.by_units[1].remainder(item, out_d);
    const DepthwiseOutput output_d(depth, out_d);
    const DepthwiseOutput run_h(height, unit_h);
    const DepthwiseResidue& taps_d = output_d.taps;
    const DepthwiseResidue& taps_h = run_h.taps;
    const int32_t u_h = run_h.u * kDepthwiseRows;

    // Two levels keep the rounding of long sums small.
    Acc sum[kDepthwiseRows];
#pragma unroll
    for (int row = 0; row < kDepthwiseRows; ++row) sum[row] = bias;
#pragma unroll 1
    for (int c = 0; c < plan.in_channels; ++c) {
#pragma unroll 1
      for (int j = 0; j < taps_d.tap_count; ++j) {
        const int32_t in_d = output_d.u + taps_d.first_offset + j * depth.offset_step;
        if (!depthwise_inside(in_d, depth.src_size)) continue;
        const int32_t tap_d = taps_d.first_tap + j * depth.tap_step;
        Acc part[kDepthwiseRows] = {};
#pragma unroll 1
        for (int k = 0; k < taps_h.tap_count; ++k) {
          const int32_t in_h = u_h + taps_h.first_offset + k * height.offset_step;
          const int32_t tap_h = taps_h.first_tap + k * height.tap_step;
          const T* const row_first = source + c * from.c + in_d * from.d + in_h * from.h;
          const Acc* weight =
              weights + ((c * depth.taps + tap_d) * height.taps + tap_h) * width.taps + taps_w.first_tap;
          int32_t in_w = first_w;
#pragma unroll 1
          for (int l = 0; l < taps_w.tap_count; ++l) {
            if (depthwise_inside(in_w, width.src_size)) {
              const T* const place = row_first + in_w * from.w;
#pragma unroll
              for (int row = 0; row < kDepthwiseRows; ++row) {
                if (depthwise_inside(in_h + row, height.src_size)) {
                  part[row] += to_accumulator(__ldg(place + row * from.h)) * *weight;
                }
              }
            }
            in_w += width.offset_step;
            weight += width.tap_step;
          }
        }
#pragma unroll
        for (int row = 0; row < kDepthwiseRows; ++row) sum[row] += part[row];
      }
    }
    activate(params.epilogue, sum, kDepthwiseRows);
#pragma unroll
    for (int row = 0; row < kDepthwiseRows; ++row) {
      const int32_t out_h = (u_h + row) * height.stride + run_h.residue;
      if (out_h < height.dst_size) {
        destination[to.spatial(out_d, out_h, out_w)] = from_accumulator<T>(sum[row]);
      }
    }
  }
}

}  // namespace convt3d
