// The plans of the general engine: how a problem is laid out on the device and how its tensors are read and written, as
// data. Knows nothing of torch or CUDA, so it is printed and tested on any machine.
//
// All three operators are matrix products over the same phase map (phase_map.h), in GEMM's names:
//   forward      C[position, co] = sum over (tap, ci) of input at position + offset(tap)      * weight   (per phase)
//   input grad   C[position, ci] = sum over (tap, co) of grad_output at position*s + offset    * weight
//   weight grad  C[(tap, co), ci] = sum over positions of grad_output at position*s + offset   * input
// so M is positions or (tap, channel), N is channels, and K is what is summed.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/access.h"
#include "core/operator.h"
#include "core/ordered_sum_shape.h"
#include "core/phase_map.h"
#include "core/problem.h"

namespace convt3d {

// The tile of C that one block computes; tile.cuh gives each its threads and registers.
enum class TileShape : int { kNarrow, kSlim, kMedium, kWide };

struct TileExtent {
  int32_t m;
  int32_t n;
  int32_t k;
};
CONVT3D_HOST_DEVICE constexpr TileExtent tile_extent(TileShape shape, bool is_double) {
  switch (shape) {
    case TileShape::kNarrow:
      return {is_double ? 256 : 512, 8, 8};
    case TileShape::kSlim:
      return {256, 16, 8};
    case TileShape::kMedium:
      return {128, 32, 8};
    case TileShape::kWide:
      return {128, 64, 8};
  }
  return {0, 0, 0};
}

// Forward and input gradient.
struct CorrelationPlan {
  std::array<AxisMap, 3> axis;
  TileShape tile;
  int64_t batch;
  int64_t groups;
  int32_t k_channels;  // channels per group that are summed
  int32_t n_channels;  // channels per group that are written
  int32_t k_padded;    // extents of the packed weight [group][tap][k_padded][n_padded], zero beyond the channels
  int32_t n_padded;
  int64_t phases;   // phases that have taps
  int64_t tiles_m;  // of the largest phase
  int64_t tiles_n;
  bool has_empty_phase;  // some outputs have no tap at all: they are the bias alone
  int64_t packed_weight_elements;
  bool masked;           // a ReLU's output masks what is read
  ChannelAccess source;  // how channels are read
  bool destination_channels_contiguous;
  bool destination_quads;  // channels are contiguous, and every quad of them is aligned and whole

  int64_t tiles() const { return phases * tiles_m * tiles_n * groups; }
};

struct WeightGradPlan {
  std::array<AxisMap, 3> axis;  // the input gradient's: one phase with every tap
  TileShape tile;
  int64_t batch;
  int64_t groups;
  int32_t row_channels;  // output channels per group
  int32_t row_padded;    // row_channels rounded up to whole quads, so that a quad of rows shares its tap
  int32_t n_channels;    // input channels per group
  int64_t rows;          // taps * row_padded
  int64_t tiles_m;
  int64_t tiles_n;
  int64_t positions;         // batch * D * H * W: what is summed
  int64_t splits;            // blocks that share one tile's positions
  int64_t split_positions;   // positions of one split, whole K tiles
  int64_t partial_elements;  // float64 partial sums [split][group][row][n_channels]
  bool masked;
  ChannelAccess grad_output;
  ChannelAccess input;

  int64_t tiles() const { return splits * tiles_m * tiles_n * groups; }
  OrderedSumShape sum_shape() const { return ordered_sum_shape(1, partial_elements / splits); }
};

// How grad_output is read: element by element, by 16 bytes of channels that are neighbours, or by 16 bytes of positions
// that are, in runs that may begin anywhere.
enum class BiasGradRead : int { kElements, kChannels, kRuns };

constexpr int32_t kBiasGradBytes = 16;  // that a thread reads at once, where they are neighbours

struct BiasGradPlan {
  BiasGradRead read;
  int32_t channel_lanes;  // threads side by side along the channels, each of which has what it reads at once
  int64_t channel_blocks;
  int64_t positions;   // batch * D' * H' * W'
  int64_t run;         // positions that are neighbours, where they are read in runs
  int64_t run_pieces;  // of 16 bytes, that a run may touch
  int64_t units;       // that threads take turns at: positions, or the pieces of all runs
  int64_t split_units;
  int64_t splits;
  int64_t partial_elements;  // float64 partial sums [split][channel]
  bool masked;
  bool collapsed;  // depth, height and width are read as one axis

  // There are many splits of few channels.
  OrderedSumShape sum_shape() const { return ordered_sum_shape(kOrderedSumThreads, partial_elements / splits); }
};
constexpr int kBiasGradThreadBits = 8;
constexpr int kBiasGradThreads = 1 << kBiasGradThreadBits;
constexpr int kBiasGradBlocks = 2;  // of a multiprocessor, for which there are registers

CorrelationPlan plan_forward(const Problem& problem, DataType dtype, const Operands& operands);
CorrelationPlan plan_input_grad(const Problem& problem, DataType dtype, const Operands& operands);
WeightGradPlan plan_weight_grad(const Problem& problem, DataType dtype, const Operands& operands);
BiasGradPlan plan_bias_grad(const Problem& problem, DataType dtype, const Operands& operands);

std::string to_string(TileShape tile);
std::string to_string(const CorrelationPlan& plan);
std::string to_string(const WeightGradPlan& plan);
const char* to_string(BiasGradRead read);
std::string to_string(const BiasGradPlan& plan);

}  // namespace convt3d
