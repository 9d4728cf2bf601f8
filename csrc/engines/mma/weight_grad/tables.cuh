// What a block of the weight gradient keeps in shared memory of its positions, warps and rows.
#pragma once

#include "device/ptx/threads.cuh"
#include "device/small_quotient.h"
#include "engines/mma/weight_grad/params.cuh"
#include "engines/mma/weight_grad/rows.cuh"

namespace convt3d::mma {

// The block's tile, worked out anew where it is used, so that no register keeps anything of it until then.
template <typename T>
__device__ __forceinline__ GradTile tile_here(const WeightGradParams<T>& params) {
  return {params, hopper::computed_here(blockIdx.x)};
}

// The boxes of a split, one after another.
struct BoxWalk {
  int32_t at[4];  // image, depth, height, width
  int32_t left;

  template <typename T>
  __device__ __forceinline__ BoxWalk(const WeightGradParams<T>& params, int64_t split) {
    int32_t rest = params.first_box + static_cast<int32_t>(split) * params.split_boxes;
    left = boxes_of(params, split);
#pragma unroll
    for (int i = 3; i > 0; --i) at[i] = params.boxes[i - 1].take(rest);
    at[0] = rest;
  }
  // Boxes of a split: the last ones of the last launch may have fewer.
  template <typename T>
  __device__ __forceinline__ static int32_t boxes_of(const WeightGradParams<T>& params, int64_t split) {
    const int32_t first = params.first_box + static_cast<int32_t>(split) * params.split_boxes;
    return max(0, min(params.split_boxes, params.end_box - first));
  }
  template <typename T>
  __device__ __forceinline__ void advance(const WeightGradParams<T>& params) {
#pragma unroll
    for (int i = 3; i > 0; --i) {
      if (++at[i] < static_cast<int32_t>(params.boxes[i - 1].value)) return;
      at[i] = 0;
    }
    ++at[0];
  }
};

// Where grad_output has channel rows, a lane reads two entries of the table beside each other, of positions that are
// four apart. These are the position of an entry, and the entry of a position.
__device__ __forceinline__ int32_t position_of_entry(int32_t i) { return i / 8 * 8 + i % 8 / 2 + i % 2 * 4; }
__device__ __forceinline__ int32_t entry_of_position(int32_t i) { return i / 8 * 8 + i % 4 * 2 + i % 8 / 4; }

template <typename T>
__device__ __forceinline__ int32_t positions_of_box(const WeightGradParams<T>& params) {
  return params.source[0].tile.images *
         static_cast<int32_t>(params.box[0].value * params.box[1].value * params.box[2].value);
}

// Where each position of a box is in both tiles; those that fill up the last step multiply zeros.
template <typename T>
__device__ __forceinline__ void fill_positions(const WeightGradParams<T>& params, unsigned char* shared,
                                               const Fillers& fillers) {
  const GradLayout& layout = params.layout;
  auto* const entries = reinterpret_cast<PositionEntry*>(shared + layout.positions);
  const StagedTile& of_grad = params.source[0].tile;
  const StagedTile& of_input = params.source[1].tile;
  const ChannelRows& rows = of_input.channel_rows;
  const int32_t zeros = of_input.has_channel_rows() ? rows.pitch - 4 : params.input_bytes;
  const int32_t positions = positions_of_box(params);
  for (int32_t i = fillers.thread; i < params.steps * kGradStep; i += fillers.count) {
    int32_t rest = of_grad.has_channel_rows() ? position_of_entry(i) : i;
    if (rest >= positions) {
      entries[i] = {0, static_cast<uint32_t>(zeros)};
      continue;
    }
    int32_t at[4];
#pragma unroll
    for (int a = 2; a >= 0; --a) at[a + 1] = params.box[a].take(rest);
    at[0] = rest;
    const auto row_bytes = [&](const StagedTile& tile) {
      int32_t row = at[3] * tile.column_step;
      for (int a = 0; a < 3; ++a) row += at[a] * tile.stride[a];
      return static_cast<uint32_t>(row * tile.pitch);
    };
    entries[i] = {row_bytes(of_grad), row_bytes(of_input)};
  }
  // What those that fill up the last step read: a row of zeros or, of channel rows, a zero behind each channel's.
  const int32_t words = of_input.has_channel_rows() ? of_input.pieces * 4 : of_input.pitch / 4;
  const int32_t step = of_input.has_channel_rows() ? rows.pitch / 4 : 1;
  if (positions == params.steps * kGradStep) return;
  for (int32_t i = fillers.thread; i < params.stages * words; i += fillers.count) {
    int32_t stage = i;
    const int32_t word = take_small(stage, words);
    const int32_t at = layout.stages + stage * layout.stage_bytes + layout.input + zeros;
    reinterpret_cast<uint32_t*>(shared + at)[word * step] = 0;
  }
}

// What a multiplying warp has of a block.
struct GradShare {
  float* sums;       // where its sums go: the block's first row, the warp's first column
  int32_t columns;   // columns that the sums have from there on
  int32_t group;     // number of its group among the block's
  int32_t n;         // its number among the warps that have the same rows
  int32_t k;         // first step that it has of a box
  int32_t steps;     // steps that it has of a box
  int32_t first;     // first fragment of 16 rows
  int32_t rows;      // fragments of 16 rows
  int32_t eights;    // eights that exist in these fragments
  int32_t boxes;     // boxes of its split
  int32_t joins_at;  // boxes left, the one at hand among them, when the sums in registers next join those in memory
};
static_assert(sizeof(GradShare) * kGradWarps <= kGradShareBytes);

// The GradShare::joins_at that follows when `left` boxes are left: a segment later, or the last box.
template <typename T>
__device__ __forceinline__ int32_t joins_next(const WeightGradParams<T>& params, int32_t left) {
  return max(1, left - params.segment_boxes);
}

template <typename T>
__device__ __forceinline__ void fill_shares(const WeightGradParams<T>& params, const GradTile& tile, int32_t columns,
                                            GradShare* shares) {
  if (threadIdx.x >= kGradWarps) return;
  auto rest = static_cast<int32_t>(threadIdx.x);
  GradShare share{};
  share.k = take_small(rest, params.warps_k);
  share.n = take_small(rest, params.warps_n);
  const int32_t m = take_small(rest, params.warps_m);
  share.group = rest;
  const int32_t eights = tile.eights(params);
  const int32_t fragments = (eights + 1) / 2;
  const int32_t each = small_quotient(fragments + params.warps_m - 1, params.warps_m);
  share.first = min(m * each, fragments - 1);
  share.rows = share.group < params.warps_groups ? max(0, min(each, fragments - m * each)) : 0;
  share.eights = min(2 * share.rows, eights - 2 * share.first);
  share.steps = small_quotient(params.steps - share.k + params.warps_k - 1, params.warps_k);
  share.boxes = BoxWalk::boxes_of(params, tile.split);
  share.joins_at = joins_next(params, share.boxes + 1);
  const int32_t n_first = tile.n_first + share.n * columns * 8;
  share.columns = params.n_pitch - n_first;
  const int64_t partial = tile.split * params.warps_k + share.k;
  const int64_t taps = int64_t{params.taps[0].taps} * params.taps[1].taps * params.width_taps;
  share.sums = params.partial + partial * params.gradient_elements +
               ((tile.group + share.group) * taps * params.row_channels + tile.row_first) * params.n_pitch + n_first;
  shares[threadIdx.x] = share;
}

// Eights of channels lie beside each other, then taps. Of width pairs a word tap has two eights: one reads the word of
// the first of two positions, the other that of the second, and their rows are those of its halves.
template <typename T>
__device__ __forceinline__ void fill_eights(const WeightGradParams<T>& params, const GradTile& tile, GradEight* eights,
                                            const Fillers& fillers) {
  const int32_t count = tile.eights(params);
  for (int32_t i = fillers.thread; i < count; i += fillers.count) {
    int32_t rest = i;
    [[maybe_unused]] const int32_t half = kIsPaired<T> ? rest % 2 : 0;
    if constexpr (kIsPaired<T>) rest /= 2;
    const int32_t channel = take_small(rest, params.row_chunk / 8) * 8;
    int32_t tap[3];
    for (int a = 2; a >= 0; --a) tap[a] = take_small(rest, params.taps[a].count(tile.part[a]));
    const StagedTile& of_grad = params.source[0].tile;
    int32_t bytes = channel * of_grad.channel_step(sizeof(T)) +
                    of_grad.channel_rows.before(tile.offset[2] + of_grad.axis[2].delta[0]) * of_grad.pitch;
    int32_t number = 0;
    bool exists = true;
    bool of_bias = true;
    for (int a = 0; a < 3; ++a) {
      const TapParts& taps = params.taps[a];
      const bool coordinates = a == 2 && of_grad.has_channel_rows();
      const int32_t shift = coordinates ? taps.coordinates(tap[a]) : taps.shift(tap[a]);
      bytes += shift * of_grad.stride[a + 1] * of_grad.pitch;
      int32_t of_kernel = taps.first(tile.part[a]) + tap[a] * taps.stride;
      if (kIsPaired<T> && a == 2) {
        of_kernel = 2 * of_kernel + params.pairs.first_tap + half;
        exists = of_kernel >= 0 && of_kernel < params.width_taps;
      }
      of_bias &= exists && (params.bias_taps[static_cast<size_t>(a)] >> of_kernel & 1) != 0;
      number = number * (a == 2 ? params.width_taps : taps.taps) + of_kernel;
    }
    if constexpr (kIsPaired<T>) bytes += half * params.pairs_apart * of_grad.pitch;
    eights[i] = {static_cast<uint32_t>(bytes), number * params.row_channels + channel,
                 exists ? params.row_channels - tile.row_first - channel : 0, of_bias ? channel : -1};
  }
}

// Fills all tables of the multiplying warps, while the loading warps load the first boxes.
template <typename T>
__device__ __forceinline__ void fill_tables(const WeightGradParams<T>& params, const GradTile& tile, int32_t columns,
                                            unsigned char* shared, const Fillers& fillers) {
  fill_shares(params, tile, columns, reinterpret_cast<GradShare*>(shared + params.layout.shares));
  fill_eights(params, tile, reinterpret_cast<GradEight*>(shared + params.layout.eights), fillers);
  fill_positions(params, shared, fillers);
}

}  // namespace convt3d::mma
