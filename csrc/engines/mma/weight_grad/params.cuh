// The parameters of the weight gradient's kernels.
#pragma once

#include "core/bias_taps.h"
#include "engines/mma/tile/loader.cuh"
#include "engines/mma/weight_grad/plan.h"

namespace convt3d::mma {

// T is the type of both operands, as the kernels read them; where it is a WidthPair, positions and taps along the width
// are those of words.
template <typename T>
struct WeightGradParams {
  LoadParams<T> source[2];  // grad_output, and the input
  TapParts taps[3];
  WidthPairs pairs;
  int32_t pairs_apart;
  int32_t width_taps;  // the kernel's taps along the width
  GradLayout layout;
  int32_t input_bytes;  // the input's tile
  Divisor box[3];
  Divisor boxes[3];         // boxes along depth, height, width
  int32_t first_box;        // first box of the launch
  int32_t end_box;          // one past its last box
  bool joins;               // the sums join those that launches before this one left
  int32_t source_group[2];  // channels from a group to the next, in grad_output and in the input as they are read
  int64_t groups;
  int32_t row_channels;
  int32_t n_channels;
  int32_t warps_groups;
  int32_t warps_m;
  int32_t warps_n;
  int32_t warps_k;
  int32_t row_chunk;
  int32_t n_chunk;
  Divisor row_chunks;
  Divisor n_chunks;
  Divisor parts[3];
  int32_t steps;
  int32_t stages;
  int32_t ahead;
  int32_t tables;
  bool only_copies;
  bool only_rows;
  bool beside;  // WeightGradPlan::beside
  Divisor tiles;
  int32_t split_boxes;
  int32_t segment_boxes;
  float* partial;   // [partial][group][tap][output channel][input channel]
  int32_t n_pitch;  // partial sums from an output channel to the next
  int64_t gradient_elements;
  BiasTaps bias_taps;
  float* bias;  // [split][part of the taps][output channel]; nullptr: not wanted
};

// What a block computes.
struct GradTile {
  int32_t part[3];
  int32_t offset[3];  // from where the problem's first tap reads to where the part's first tap does
  int32_t row_first;  // first output channel, within its group
  int32_t n_first;    // first input channel, within its group
  int64_t group;      // first of its warps_groups groups
  int64_t split;

  template <typename T>
  __device__ __forceinline__ GradTile(const WeightGradParams<T>& params, uint32_t block) {
    auto in_order = static_cast<int32_t>(block);
    int32_t rest = params.tiles.take(in_order);
    split = in_order;
    n_first = params.n_chunks.take(rest) * params.n_chunk;
#pragma unroll
    for (int i = 2; i >= 0; --i) {
      part[i] = params.parts[i].take(rest);
      offset[i] = params.taps[i].first(part[i]) * params.taps[i].dilation;
    }
    row_first = params.row_chunks.take(rest) * params.row_chunk;
    group = static_cast<int64_t>(rest) * params.warps_groups;
  }

  // Eights of rows (tap, output channel) of a group; none where the last part of a residue has no tap.
  template <typename T>
  __device__ __forceinline__ int32_t eights(const WeightGradParams<T>& params) const {
    return params.taps[0].count(part[0]) * params.taps[1].count(part[1]) * params.taps[2].count(part[2]) *
           (params.row_chunk / 8) * (kIsPaired<T> ? 2 : 1);
  }
};

// An eight of rows (tap, output channel).
struct GradEight {
  uint32_t grad;         // bytes from a position's row in the tile of grad_output to the eight's channels there
  int32_t row;           // tap * channels of a group + channel of the block's
  int32_t channels;      // how many of its channels exist
  int32_t bias_channel;  // first channel, of the block's, where the bias's gradient has its rows; else below zero
};

static_assert(sizeof(GradEight) == kGradEightBytes);

}  // namespace convt3d::mma
