// Depthwise forward, width contiguous as in rows_kernel.cuh, where depth and height have the width's taps and
// stride 2, and the input consists of whole, aligned vectors: a thread owns a vector of neighbouring outputs in the
// four rows of their residues. What they read is loaded once, several rows of it at a time, without a branch. Outputs
// of whole vectors leave from registers, other rows as runs.
#pragma once

#include "engines/depthwise/row_runs.cuh"
#include "engines/depthwise/rows_kernel.cuh"

namespace convt3d {

// A row of the input as it is in memory: the positions of a thread's outputs, and those beside them.
template <typename T, typename Taps>
struct DepthwisePieces {
  static constexpr int kPositions = DepthwiseWindow<T, Taps>::kPositions;
  static constexpr int kBefore = -Taps::kLow;
  static constexpr int kAfter = Taps::kHigh;
  static_assert(kBefore >= 0 && kAfter >= 0, "offset 0 is read");
  using Bits = std::conditional_t<kPositions * sizeof(T) == 16, uint4, uint2>;
  static_assert(sizeof(Bits) == kPositions * sizeof(T), "one load");

  Bits middle;
  T before[kBefore > 0 ? kBefore : 1];
  T after[kAfter > 0 ? kAfter : 1];

  // `place`: of the first position, `first`; zero unless `inside`.
  __device__ __forceinline__ void load(const T* place, int32_t first, int32_t size, bool inside) {
    middle = Bits();
    if (inside && depthwise_inside(first, size)) middle = __ldg(reinterpret_cast<const Bits*>(place));
#pragma unroll
    for (int i = 0; i < kBefore; ++i) before[i] = element(place, first, i - kBefore, size, inside);
#pragma unroll
    for (int i = 0; i < kAfter; ++i) after[i] = element(place, first, kPositions + i, size, inside);
  }

  __device__ __forceinline__ DepthwiseWindow<T, Taps> widened() const {
    DepthwiseWindow<T, Taps> window;
#pragma unroll
    for (int i = 0; i < kBefore; ++i) window.value[i] = to_accumulator(before[i]);
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
      window.value[kBefore + i] = to_accumulator(reinterpret_cast<const T*>(&middle)[i]);
    }
#pragma unroll
    for (int i = 0; i < kAfter; ++i) window.value[kBefore + kPositions + i] = to_accumulator(after[i]);
    return window;
  }

 private:
  static __device__ __forceinline__ T element(const T* place, int32_t first, int offset, int32_t size, bool inside) {
    T value = from_accumulator<T>(Accumulator<T>(0));
    if (inside && depthwise_inside(first + offset, size)) value = __ldg(place + offset);
    return value;
  }
};

template <typename T, typename Taps, bool kRuns>
__global__ __launch_bounds__(
    kDepthwiseThreads, sizeof(T) == 2 || Taps::kTaps == 4
                           ? 4
                           : 5) void convt3d_depthwise_row_pairs(const __grid_constant__ DepthwiseParams<T> params) {
  using Acc = Accumulator<T>;
  constexpr int kVector = depthwise_vector(sizeof(T));
  constexpr int kOffsets = Taps::kHigh - Taps::kLow + 1;
  const DepthwisePlan& plan = params.plan;
  const DepthwiseAxis& depth = plan.axis[0];
  const DepthwiseAxis& height = plan.axis[1];
  const DepthwiseRowShare share(plan);
  Acc* const weights = reinterpret_cast<Acc*>(dynamic_shared_memory);
  stage_row_weights(params, share.channel, Taps::kPadded, weights);
  const int32_t out_w = share.lane * kVector;
  if (!kRuns && out_w >= plan.axis[2].dst_size) return;
  const Strides& from = params.source.stride;
  const Strides& to = params.destination_stride;
  const int32_t first_w = out_w / 2 + plan.shift[2];
  const T* const source = params.source.data + share.image * from.n + share.in_channel * from.c + first_w;
  T* const volume = params.destination + share.image * to.n + share.channel * to.c;
  const Acc bias = bias_of<T>(params.epilogue, share.channel);

  // Of runs all threads of a block take the same steps.
  const int32_t slot = kRuns ? static_cast<int32_t>(threadIdx.x) / plan.lanes : 0;
  const int32_t first_item = share.item - slot;
  const int32_t items_end = min(plan.items, first_item + plan.steps * plan.slots);
#pragma unroll 1
  for (int32_t begin = first_item; begin < items_end; begin += plan.slots) {
    const int32_t item = begin + slot;
    const bool exists = !kRuns || (item < plan.items && out_w < plan.axis[2].dst_size);
    const int32_t u_d = plan.by_units[1].quotient(item);
    const int32_t u_h = plan.by_units[1].remainder(item, u_d);
    const int32_t first_d = u_d + plan.shift[0] + Taps::kLow;
    const int32_t first_h = u_h + plan.shift[1] + Taps::kLow;
    const T* corner = source + first_d * from.d + first_h * from.h;

    Acc sum[2][2][kVector];  // residues of depth and height
#pragma unroll
    for (int i = 0; i < 4 * kVector; ++i) (&sum[0][0][0])[i] = bias;
    const Acc* channel_weights = weights;
#pragma unroll 1
    for (int c = 0; c < plan.in_channels; ++c) {
      const T* plane = corner;
#pragma unroll
      for (int j = 0; j < kOffsets; ++j, advance_bytes(plane, params.source_step[0])) {
        DepthwisePieces<T, Taps> rows[kOffsets];
        const T* row = plane;
#pragma unroll
        for (int k = 0; k < kOffsets; ++k, advance_bytes(row, params.source_step[1])) {
          rows[k].load(row, first_w, plan.axis[2].src_size,
                       exists && depthwise_inside(first_d + j, depth.src_size) &&
                           depthwise_inside(first_h + k, height.src_size));
        }
#pragma unroll
        for (int k = 0; k < kOffsets; ++k) {
          const DepthwiseWindow<T, Taps> window = rows[k].widened();
          for_each_residue_pair<Taps>(j + Taps::kLow, k + Taps::kLow, [&](int d, int h, int weight_row) {
            multiply_row(window, channel_weights + weight_row * Taps::kPadded, sum[d][h]);
          });
        }
      }
      corner += from.c;
      channel_weights += Taps::kTaps * Taps::kTaps * Taps::kPadded;
    }

    activate(params.epilogue, &sum[0][0][0], 4 * kVector);
    const auto outputs_of = [&](int d, int h) {
      DepthwiseVector<T> vector;
#pragma unroll
      for (int i = 0; i < kVector; ++i) vector.value[i] = from_accumulator<T>(sum[d][h][i]);
      return vector;
    };
    if constexpr (kRuns) {
      const DepthwiseRowRuns<T> runs(params, volume, begin,
                                     depthwise_row_weight_bytes(plan.in_channels, Taps::kTaps, Taps::kPadded));
      __syncthreads();  // the runs before have been read
#pragma unroll
      for (int d = 0; d < 2; ++d) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          if (exists) runs.stage(u_d, 2 * u_h + h, d, out_w, outputs_of(d, h));
        }
      }
      __syncthreads();
      runs.store();
    } else {
      T* plane = volume + out_w + 2 * u_d * to.d + 2 * u_h * to.h;
#pragma unroll
      for (int d = 0; d < 2; ++d, advance_bytes(plane, params.destination_step[0])) {
        T* row = plane;
#pragma unroll
        for (int h = 0; h < 2; ++h, advance_bytes(row, params.destination_step[1])) {
          if (2 * u_d + d >= depth.dst_size || 2 * u_h + h >= height.dst_size) continue;
          const DepthwiseVector<T> vector = outputs_of(d, h);
          *reinterpret_cast<uint4*>(row) = *reinterpret_cast<const uint4*>(&vector);
        }
      }
    }
  }
}

}  // namespace convt3d
