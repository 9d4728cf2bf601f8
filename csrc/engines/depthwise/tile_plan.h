// The plan of the depthwise engine's tiles: the gradients of layers whose groups have one channel each, and their
// forward with long kernels. A block stages the box of the source that a tile of positions reads in shared memory, as
// float32, with zeros outside of the tensor; a thread then owns a run of neighbours along the height at one place of
// the width, so that a column of the box that it has in registers serves all of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "core/cost.h"
#include "core/device_traits.h"
#include "core/divisor.h"
#include "core/one_or_two.h"
#include "core/operands.h"
#include "core/operator.h"
#include "core/ordered_sum_shape.h"
#include "core/problem.h"

namespace convt3d {

constexpr int kDepthwiseTileThreads = 256;
constexpr int kDepthwiseTapSlots = 8;  // of a row of weights along the height
constexpr int kDepthwiseMaxTaps = 7;   // along an axis
constexpr int kDepthwiseTileBytes = 48 * 1024;
constexpr int kDepthwiseLoadsAtATime = 4;  // of a thread that stages a box
constexpr int kDepthwiseSumLanes = 16;     // threads that share one sum of partial sums

// How the neighbours of a thread along the height meet their taps. A box's rows are numbered from the first that the
// run reads.
enum class DepthwiseRun : int {
  kStep1,   // neighbour r and tap k meet in row r + k
  kStep2,   // in row 2r + k
  kSpread,  // neighbours of equal parity share their taps, every other one: row (r - k) / 2 + 3, with k in [0, 8)
};
constexpr int depthwise_run_length(DepthwiseRun run) { return run == DepthwiseRun::kStep2 ? 4 : 8; }
// Rows that a run can read.
constexpr int depthwise_run_rows(DepthwiseRun run) {
  const int length = depthwise_run_length(run);
  return run == DepthwiseRun::kSpread ? length / 2 + 3
                                      : (length - 1) * (run == DepthwiseRun::kStep2 ? 2 : 1) + kDepthwiseMaxTaps;
}

// A part of a tensor in shared memory: float32 [channel][depth][width][height].
struct DepthwiseBox {
  std::array<int32_t, 3> extent;   // depth, height, width
  std::array<int32_t, 3> first;    // position of the box that the first tile reads
  std::array<int32_t, 3> advance;  // positions from a tile's box to the next tile's
  Divisor by_extent[2];            // depth, height
  int32_t columns;                 // of the width: with room for whole vectors, wherever these begin
  int32_t split_columns;           // 1: even columns come first, and odd ones from odd_columns on; else 0
  int32_t odd_columns;
  int32_t column_pitch;  // odd, so that neighbours along the width are in banks of their own
  int32_t plane_pitch;
  int32_t channel_pitch;  // the threads of a warp that differ in channel are in banks of their own
  int32_t lanes;          // neighbouring threads that load one row, a power of two
  bool by_channels;       // neighbouring threads load neighbouring channels, else places of a row
  bool quads;             // four neighbours at a time, whole and aligned

  CONVT3D_HOST_DEVICE bool row_quads() const { return quads && !by_channels; }
  // Where a column of the box is.
  CONVT3D_HOST_DEVICE int32_t column(int32_t x) const {
    return (x >> split_columns) + (x & split_columns) * odd_columns;
  }
};

struct DepthwiseTilePlan {
  Operator op;
  DepthwiseRun run;
  int64_t batch;
  int32_t channels;
  std::array<int32_t, 3> taps;
  std::array<OneOrTwo, 3> stride;
  std::array<int32_t, 3> padding;
  std::array<int32_t, 3> size;  // of what the tiles cover: the result or, of the weight gradient, the input
  std::array<int32_t, 3> tile;  // positions of a tile: depth, height (whole runs), width
  int32_t tile_channels;        // channels of a tile, a power of two
  int32_t channel_shift;        // its exponent
  std::array<int32_t, 3> tiles;
  int32_t channel_tiles;
  Divisor by_tile[3];  // depth, runs of the height, width
  // Height, spread: slot of the first tap, and rows of a run before which there is none.
  int32_t first_slot;
  int32_t skipped_rows;
  DepthwiseBox box[2];  // the source; of the weight gradient, of the input
  bool by_channels;     // neighbouring threads own neighbouring channels, else places of the width
  bool masked;
  // The weight gradient: threads that share the positions of a tile, for one channel and one row of taps, and blocks
  // that share the tiles.
  int32_t sharing;
  int32_t splits;
  int32_t split_tiles;
  bool sums_bias;                     // the weight gradient has the bias's, too
  std::array<int32_t, 3> bias_first;  // then: of a tile's box, where the outputs begin that no other tile sums
  // Of the weight gradient, floats of shared memory before the box of the input, threads' sums, and those of the
  // bias's.
  int32_t input_offset;
  int32_t sums_offset;
  int32_t bias_offset;
  int64_t shared_bytes;
  double clocks;  // of all blocks together, by a model: a multiprocessor at work alone

  // Tiles of a channel.
  CONVT3D_HOST_DEVICE int64_t positions() const { return batch * tiles[0] * tiles[1] * tiles[2]; }
  int64_t blocks() const { return int64_t{channel_tiles} * (op == Operator::kWeightGrad ? splits : positions()); }
  CONVT3D_HOST_DEVICE int32_t pairs() const { return taps[0] * taps[2]; }  // rows of taps along the height
  // Floats from a channel's weights to the next.
  CONVT3D_HOST_DEVICE int32_t weight_pitch() const { return pairs() * kDepthwiseTapSlots + 4; }
  int64_t partial_elements() const {
    if (op != Operator::kWeightGrad) return 0;
    return int64_t{splits} * channel_tiles * tile_channels * pairs() * taps[1];
  }
  CONVT3D_HOST_DEVICE bool has_bias() const { return sums_bias; }
  // Partial sums of the weight's gradient, and behind them of the bias's, [split][channel].
  int64_t workspace_bytes() const {
    const int64_t bias = has_bias() ? int64_t{splits} * channels : 0;
    return (partial_elements() + bias) * static_cast<int64_t>(sizeof(float));
  }
  // Of the weight gradient.
  OrderedSumShape sum_shape() const { return ordered_sum_shape(kDepthwiseSumLanes, partial_elements() / splits); }
};

// Past the taps that the forward's own kernels know.
bool has_long_kernel(const Problem& problem);
// None where a group has several channels, for float64, for strides past 2, kernels past 7 and dilations. `sums_bias`:
// of the weight gradient, with the bias's; then none, too, where no neighbouring taps reach all outputs (bias_taps.h).
std::optional<DepthwiseTilePlan> plan_depthwise_tiles(Operator op, const Problem& problem, DataType dtype,
                                                      const Operands& operands, bool sums_bias);
std::string to_string(DepthwiseRun run);
std::string to_string(const DepthwiseTilePlan& plan);

}  // namespace convt3d
