// Depthwise input gradient by patches: a thread computes a patch of positions of one or several channels, a tap of the
// depth after the other.
#pragma once

#include "engines/depthwise/patch_params.cuh"

namespace convt3d {

// Weights of the block's channels by all of its threads, float32: [depth][height][padded width] of one channel, or
// [depth][height][width][channel], of which rows begin in banks of their own.
template <typename Taps, bool kByChannels, typename T>
__device__ __forceinline__ void stage_patch_weights(const DepthwisePatchParams<T>& params, int32_t first_channel,
                                                    float* weights) {
  const DepthwisePatchPlan& plan = params.plan;
  const int32_t existing = min(plan.tile_channels(), plan.channels - first_channel);
  const int32_t taps = static_cast<int32_t>(plan.by_taps.value);
  const T* const first = params.weight + first_channel * params.weight_stride.n;
#pragma unroll 2
  for (int32_t index = static_cast<int32_t>(threadIdx.x); index < existing * taps; index += plan.threads) {
    const int32_t channel = plan.by_taps.quotient(index);
    const auto tap = static_cast<uint32_t>(plan.by_taps.remainder(index, channel));
    const uint32_t row = tap / Taps::kTaps;
    const uint32_t w = tap % Taps::kTaps;
    const T* const place = first + channel * params.weight_stride.n +
                           params.weight_stride.spatial(row / Taps::kTaps, row % Taps::kTaps, w);
    const uint32_t to = kByChannels ? tap * plan.weight_pitch() + channel : row * Taps::kPaddedTaps + w;
    weights[to] = to_accumulator(__ldg(place));
  }
}

// Floats from shared memory, aligned as one vector.
template <int kCount>
__device__ __forceinline__ void load_floats(const float* from, float (&values)[kCount]) {
  struct alignas(kCount > 4 ? 16 : kCount * 4) Vector {
    float value[kCount];
  };
  *reinterpret_cast<Vector*>(values) = *reinterpret_cast<const Vector*>(from);
}

// One row of a patch: a vector along the width or, of several channels, one at each position; else element by element.
template <int kWidth, int kChannels, typename T>
__device__ __forceinline__ void store_patch_row(T* row, const Strides& stride, int32_t left, bool vectors,
                                                const float (&sum)[kWidth][kChannels]) {
  constexpr int kVector = kChannels > 1 ? kChannels : kWidth;
  struct alignas(kVector * sizeof(T)) Vector {
    T value[kVector];
  };
  Vector result[kWidth * kChannels / kVector];
#pragma unroll
  for (int i = 0; i < kWidth * kChannels; ++i) {
    result[i / kVector].value[i % kVector] = from_accumulator<T>(sum[i / kChannels][i % kChannels]);
  }
  if (vectors && kChannels == 1) {
    *reinterpret_cast<Vector*>(row) = result[0];
    return;
  }
#pragma unroll
  for (int p = 0; p < kWidth; ++p, row += stride.w) {
    if (p >= left) break;
    if (vectors) {
      *reinterpret_cast<Vector*>(row) = result[p * kChannels / kVector];
      continue;
    }
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const int i = p * kChannels + c;
      row[c * stride.c] = result[i / kVector].value[i % kVector];
    }
  }
}

// Blocks that share a multiprocessor: as many as need no spilled register.
template <typename T, typename Taps, DepthwisePatchAccess kAccess>
constexpr int kDepthwisePatchBlocks =
    Taps::kTaps > 3 ? sizeof(T) == 4             ? 2
                      : kDepthwisePatchFewBlocks ? 2
                                                 : 3
    : sizeof(T) == 4 && (kDepthwisePatchFewBlocks || kAccess == DepthwisePatchAccess::kChannels) ? 3
                                                                                                 : 4;

template <typename T, typename Taps, DepthwisePatchAccess kAccess>
__global__ __launch_bounds__(
    kDepthwisePatchThreads,
    kDepthwisePatchBlocks<T, Taps, kAccess>) void convt3d_depthwise_patch_input_grad(const __grid_constant__
                                                                                         DepthwisePatchParams<T>
                                                                                             params) {
  constexpr bool kByChannels = kAccess == DepthwisePatchAccess::kChannels;
  constexpr int kHeight = depthwise_patch_height(kAccess);
  constexpr int kWidth = depthwise_patch_width(kAccess, sizeof(T), Taps::kTaps, Taps::kStride, false);
  constexpr int kChannels = depthwise_patch_channels(kAccess, sizeof(T), Taps::kTaps, false);
  using Row = DepthwisePatchRow<T, Taps, kAccess, kWidth, kChannels>;
  constexpr int kStride = Taps::kStride;
  constexpr int kTaps = Taps::kTaps;
  constexpr int kRows = (kHeight - 1) * kStride + kTaps;
  constexpr int kAhead = kTaps > 3 ? 1 : kTaps;  // taps of the height whose rows are loaded before they are needed
  const DepthwisePatchPlan& plan = params.plan;
  const Strides& from = params.source.step;
  const Strides& to = params.destination_stride;

  auto block = static_cast<uint32_t>(blockIdx.x);
  uint32_t item_tile = 0;
  uint32_t channel_tile = 0;
  // Neighbouring blocks have neighbouring channels, where these are neighbours in memory; else neighbouring positions.
  if constexpr (kByChannels) {
    channel_tile = block % static_cast<uint32_t>(plan.channel_tiles);
    block /= static_cast<uint32_t>(plan.channel_tiles);
    item_tile = block % static_cast<uint32_t>(plan.item_tiles);
    block /= static_cast<uint32_t>(plan.item_tiles);
  } else {
    item_tile = block % static_cast<uint32_t>(plan.item_tiles);
    block /= static_cast<uint32_t>(plan.item_tiles);
    channel_tile = block % static_cast<uint32_t>(plan.channel_tiles);
    block /= static_cast<uint32_t>(plan.channel_tiles);
  }
  const int32_t weight_pitch = plan.weight_pitch();
  const int32_t first_channel = static_cast<int32_t>(channel_tile) * plan.tile_channels();
  const auto lane = static_cast<int32_t>(threadIdx.x & (plan.lanes - 1));
  const int32_t channel = first_channel + lane * kChannels;
  float* const staged = reinterpret_cast<float*>(dynamic_shared_memory);
  stage_patch_weights<Taps, kByChannels>(params, first_channel, staged);
  __syncthreads();
  if (channel >= plan.channels) return;

  const float* const weights = staged + (kByChannels ? lane * kChannels : 0);
  const unsigned char* const source = params.source.data + static_cast<int64_t>(block) * from.n + channel * from.c;
  T* const destination = params.destination + static_cast<int64_t>(block) * to.n + channel * to.c;
  const int32_t first_item = static_cast<int32_t>(item_tile) * plan.steps * plan.slots;
  const int32_t items_end = min(plan.items, first_item + plan.steps * plan.slots);
#pragma unroll 1
  for (int32_t item = first_item + static_cast<int32_t>(threadIdx.x >> plan.lane_shift); item < items_end;
       item += plan.slots) {
    int32_t d = item;
    const int32_t w = plan.by_units[2].take(d) * kWidth;
    const int32_t h = plan.by_units[1].take(d) * kHeight;
    const int32_t from_h = h * kStride - plan.padding[1];
    const int32_t from_w = w * kStride - plan.padding[2];
    const uint32_t columns = existing_places(from_w, plan.source_size[2]);
    const uint32_t rows = existing_places(from_h, plan.source_size[1]);
    const unsigned char* const corner = source + from.spatial(0, from_h, from_w);

    float sum[kHeight][kWidth][kChannels] = {};
#pragma unroll 1
    for (int32_t tap_d = 0; tap_d < plan.depth_taps; ++tap_d) {
      const int32_t from_d = d * plan.depth_stride - plan.padding[0] + tap_d;
      if (!depthwise_inside(from_d, plan.source_size[0])) continue;
      const unsigned char* const plane = corner + from_d * from.d;
      const float* const plane_weights =
          weights + tap_d * kTaps * (kByChannels ? kTaps * weight_pitch : Taps::kPaddedTaps);
      Row pieces[kRows];
      float window[kRows][Row::kColumns][kChannels];
      float part[kHeight][kWidth][kChannels] = {};
      // The rows that the i-th tap is the first to meet: of all positions, or of the last one.
      const auto for_new_rows = [&](int i, auto&& function) {
        const int k = Taps::tap(i);
#pragma unroll
        for (int r = 0; r < kHeight; ++r) {
          if (k < kStride || r == kHeight - 1) function(r * kStride + k);
        }
      };
      const auto load = [&](int i) {
        for_new_rows(
            i, [&](int row) { pieces[row].load(plane + row * from.h, from.w, (rows >> row & 1) != 0 ? columns : 0); });
      };
#pragma unroll
      for (int i = 0; i < kAhead; ++i) load(i);
#pragma unroll
      for (int i = 0; i < kTaps; ++i) {
        if (i + kAhead < kTaps) load(i + kAhead);
        for_new_rows(i, [&](int row) {
#pragma unroll
          for (int x = 0; x < Row::kColumns; ++x) {
#pragma unroll
            for (int c = 0; c < kChannels; ++c) window[row][x][c] = pieces[row].value(x, c);
          }
        });
        const int k = Taps::tap(i);
        float weight[kTaps][kChannels];
        if constexpr (kByChannels) {
#pragma unroll
          for (int x = 0; x < kTaps; ++x) load_floats(plane_weights + (k * kTaps + x) * weight_pitch, weight[x]);
        } else {
          float padded[Taps::kPaddedTaps];
          load_floats(plane_weights + k * Taps::kPaddedTaps, padded);
#pragma unroll
          for (int x = 0; x < kTaps; ++x) weight[x][0] = padded[x];
        }
#pragma unroll
        for (int r = 0; r < kHeight; ++r) {
#pragma unroll
          for (int x = 0; x < kTaps; ++x) {
#pragma unroll
            for (int p = 0; p < kWidth; ++p) {
#pragma unroll
              for (int c = 0; c < kChannels; ++c) {
                part[r][p][c] += window[r * kStride + k][p * kStride + x][c] * weight[x][c];
              }
            }
          }
        }
      }
      // Two levels keep the rounding of long sums small.
#pragma unroll
      for (int i = 0; i < kHeight * kWidth * kChannels; ++i) (&sum[0][0][0])[i] += (&part[0][0][0])[i];
    }

    T* place = destination + to.spatial(d, h, w);
#pragma unroll
    for (int r = 0; r < kHeight; ++r, place += to.h) {
      if (h + r >= plan.size[1]) break;
      store_patch_row(place, to, plan.size[2] - w, plan.result_vectors, sum[r]);
    }
  }
}

}  // namespace convt3d
