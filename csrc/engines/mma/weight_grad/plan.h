// Problem -> how the weight gradient is laid out on the tensor cores, as data. Knows nothing of torch or CUDA.
//
// C[tap, co][ci] = sum over input positions i of grad_output at i*stride - padding + k*dilation, times input at i: M is
// (tap, output channel) in eights, N is input channels, K is positions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/bias_taps.h"
#include "core/device_traits.h"
#include "core/integer.h"
#include "core/operands.h"
#include "core/ordered_sum_shape.h"
#include "core/problem.h"
#include "engines/mma/tile/layouts.h"
#include "engines/mma/tile/load_shape.h"
#include "engines/mma/tile/portions.h"
#include "engines/mma/tile/tap_parts.h"
#include "engines/mma/tile/tile.h"
#include "engines/mma/tile/width_pairs.h"

namespace convt3d::mma {

constexpr int kGradWarps = 8;     // warps that multiply
constexpr int kLoadingWarps = 4;  // warps that fill shared memory
constexpr int kGradThreads = 32 * (kGradWarps + kLoadingWarps);
constexpr int kGradStep = 16;  // positions of a step of K
constexpr int kMostGradStages = 4;
constexpr int kLoadingThreads = 32 * kLoadingWarps;
// Bytes of shared memory.
constexpr int kGradShareBytes = 48 * kGradWarps;  // the shares of all multiplying warps
constexpr int kGradBarrierBytes = 144;            // the barriers of all stages
constexpr int kBiasFragmentBytes = 4;             // an entry of the list of fragments whose rows the bias has
constexpr int kGradEightBytes = 16;               // an entry of the table of eights

// Fragments whose rows a loading warp sums at once for the bias's gradient, and float32 that they take.
constexpr int kBiasRows = 4;
constexpr int kBiasUnitSums = 16 * kBiasRows;
// Slices of a box's steps: the more, the fewer fragments there are. A unit of work is some fragments and a slice.
CONVT3D_HOST_DEVICE constexpr int32_t bias_slices(int32_t fragments) {
  return fragments <= kBiasRows ? kLoadingWarps : fragments <= 2 * kBiasRows ? kLoadingWarps / 2 : 1;
}
CONVT3D_HOST_DEVICE constexpr int32_t bias_units(int32_t fragments) {
  return (fragments + kBiasRows - 1) / kBiasRows * bias_slices(fragments);
}
// The most units of work that any number of fragments up to this one has.
CONVT3D_HOST_DEVICE constexpr int32_t most_bias_units(int32_t fragments) {
  const int32_t groups = (fragments + kBiasRows - 1) / kBiasRows;
  return groups > kLoadingWarps ? groups : kLoadingWarps;
}

// Fragments of 8 input channels of a warp, and of 16 rows (tap, output channel).
constexpr int kGradColumns[] = {4, 2, 1};
CONVT3D_HOST_DEVICE constexpr int grad_rows(int columns, int terms) { return terms == 1 || columns < 4 ? 7 : 4; }

// A block's shared memory, in bytes.
struct GradLayout {
  int32_t barriers;
  int32_t shares;          // what each multiplying warp computes
  int32_t positions;       // where each position of a box is in both tiles
  int32_t eights;          // where each eight of rows is in the tile of grad_output, and in the sums
  int32_t bias;            // the bias's sums of rows of all boxes so far, float32 (bias_rows.cuh)
  int32_t bias_units;      // the sums of rows of one box that each unit of work has, float32
  int32_t bias_fragments;  // how many eights there are, and which of their fragments count
  int32_t grad_fixed;      // what loaders of grad_output know of all boxes alike
  int32_t input_fixed;     // what loaders of the input know of all boxes alike
  int32_t tables;          // the loaders' tables of each box that is on its way and of the one that has arrived
  int32_t input_table;     // the input's table within a box's, behind that of grad_output
  int32_t table_bytes;
  int32_t raw;        // raw rows of the boxes that are on their way
  int32_t input_raw;  // the input's within those of a box
  int32_t raw_bytes;
  int32_t stages;
  int32_t
      input;  // the input's tile within a stage, behind that of grad_output and, but of channel rows, a row of zeros
  int32_t stage_bytes;
  int64_t bytes;
};

// What strides and addresses make of the operands.
struct GradLayouts {
  LoadWay grad;
  LoadWay input;
  bool masked;  // grad_output counts only where the mask is not <= 0, and is not copied
  RowsBegin grad_begin;
  RowsBegin input_begin;
  int32_t grad_part = kPieceBytes;  // bytes of channels that are copied at once: copied_part()
  int32_t input_part = kPieceBytes;
};

// Which warps sum the rows that are the bias's gradient, where that is wanted beside the weight's.
enum class BiasSums : int { kNone, kLoadingWarps, kMultiplyingWarps };

struct WeightGradPlan {
  GradLayouts layouts;
  WidthPairs pairs;       // of both operands, whose elements are words then; so are positions along the width, and taps
  int32_t pairs_apart;    // words of grad_output: tile/width_pairs.h
  OperandCopy grad_copy;  // of grad_output, which is then what the kernel reads
  OperandCopy input_copy;
  Portions portions;
  int32_t terms;
  int32_t element_bytes;
  int64_t batch;
  int64_t groups;
  int32_t row_channels;  // output channels of a group
  int32_t n_channels;    // input channels of a group
  std::array<TapParts, 3> taps;
  std::array<int32_t, 3> box;    // positions of a box
  int32_t images;                // images of a box
  std::array<int64_t, 4> boxes;  // how many boxes there are along images, depth, height, width
  StagedTile grad;
  StagedTile input;
  LoadShape grad_shape;
  LoadShape input_shape;
  double grad_accesses;  // read_accesses() of both tiles, where they have rows of channels; else 1
  double input_accesses;
  int32_t columns;       // fragments of 8 columns of a warp
  int32_t warps_groups;  // warps that differ in their group
  int32_t warps_m;       // warps that differ in their rows
  int32_t warps_n;       // warps that differ in their columns
  int32_t warps_k;       // warps that differ in their steps of K
  int32_t row_chunk;     // output channels of a block and group, whole eights
  int32_t n_chunk;       // input channels of a block and group
  int32_t row_chunks;
  int32_t n_chunks;
  int32_t group_blocks;
  int32_t steps;   // steps of K in a box
  int32_t stages;  // boxes in shared memory
  int32_t ahead;   // boxes that are begun at most before the first of them is awaited
  int64_t splits;  // blocks that share one tile's boxes, those of a portion
  int64_t split_boxes;
  int32_t segment_boxes;  // boxes that are summed in registers before they join the sum in memory
  GradLayout layout;
  BiasSums bias;
  BiasTaps bias_taps;  // whose rows are summed, where there is a bias
  bool beside;         // the kernel begins beside the one before it, and ends after that
  double cost_ms;      // expected time

  int64_t part_count() const { return int64_t{taps[0].parts} * taps[1].parts * taps[2].parts; }
  int64_t tiles() const { return part_count() * row_chunks * n_chunks * group_blocks; }
  int64_t blocks() const { return tiles() * splits; }
  int64_t box_count() const { return boxes[0] * boxes[1] * boxes[2] * boxes[3]; }
  // Boxes of the largest launch.
  int64_t launch_boxes() const { return portion_boxes(portions, boxes); }
  bool copies_operands() const { return grad_copy.exists || input_copy.exists; }
  bool has(LoadWay way) const { return layouts.grad == way || layouts.input == way; }
  // There is nothing left to do for a box that has arrived.
  bool only_copies() const { return copies_only(layouts.grad) && copies_only(layouts.input); }
  // The loaders' tables: while one is read, the next is made; those of boxes that have arrived may be read again.
  int32_t tables() const { return only_copies() ? 2 : ahead + 1; }
  // Stages are written when their boxes have arrived, not before.
  bool only_rows() const { return layouts.grad == LoadWay::kRows && layouts.input == LoadWay::kRows; }
  // Eights of a block and group whose part of the taps has most.
  int32_t most_eights() const { return taps[0].most * taps[1].most * taps[2].most * (row_chunk / 8) * halves(); }
  // Positions in an element of the input, and taps in an element of grad_output: two in a word.
  int32_t halves() const { return pairs.exist ? 2 : 1; }
  // The kernel's taps along the width.
  int32_t width_taps() const { return pairs.exist ? pairs.taps : taps[2].taps; }
  int32_t most_fragments() const { return (most_eights() + 1) / 2; }
  // Partial gradients, which are added in the end: [partial][group][tap][output channel][input channel], float32; two
  // input channels are stored at once.
  int64_t partials() const { return splits * warps_k; }
  int32_t n_pitch() const { return (n_channels + 1) / 2 * 2; }
  int64_t gradient_elements() const {
    return groups * taps[0].taps * taps[1].taps * width_taps() * row_channels * n_pitch();
  }
  OrderedSumShape sum_shape() const { return gradient_sum_shape(partials(), gradient_elements()); }
  // Partial gradients of the bias: [split][part of the taps][output channel], float32.
  bool has_bias() const { return bias != BiasSums::kNone; }
  int64_t bias_partials() const { return splits * part_count(); }
  int64_t bias_bytes() const { return has_bias() ? 4 * bias_partials() * groups * row_channels : 0; }
  // The workspace: these sums, then what is copied.
  int64_t partial_bytes() const { return 4 * partials() * gradient_elements(); }
  int64_t bias_offset() const { return workspace_part(partial_bytes()); }
  int64_t sums_bytes() const { return has_bias() ? bias_offset() + bias_bytes() : partial_bytes(); }
  int64_t grad_copy_offset() const { return workspace_part(sums_bytes()); }
  int64_t input_copy_offset() const { return grad_copy_offset() + workspace_part(grad_copy.bytes()); }
  int64_t workspace_bytes() const {
    return copies_operands() ? input_copy_offset() + input_copy.bytes() : sums_bytes();
  }
};

// What follows from the problem and the operands alone.
WeightGradPlan weight_grad_base(const Problem& problem, DataType dtype, int terms, const GradLayouts& layouts);
// A weight gradient of 16 bits whose operands are read as words along the width, where they can be.
struct PairedGrad {
  PairedProblem words;
  WeightGradPlan base;
};
std::optional<PairedGrad> paired_grad(const Problem& problem, DataType dtype, const Operands& operands);
// The plans of the least expected cost for each arrangement of the warps, the best one first; none where the problem is
// not for this engine. They copy no operand.
std::vector<WeightGradPlan> weight_grad_candidates(const Problem& problem, DataType dtype, int terms,
                                                   const GradLayouts& layouts, const DeviceTraits& device,
                                                   const std::optional<BiasTaps>& bias = std::nullopt);
// These plans of operands with any strides, and those that copy operands. `most_copied`: bytes of a portion's copies.
std::vector<WeightGradPlan> weight_grad_candidates(const Problem& problem, DataType dtype, int terms,
                                                   const Operands& operands, const DeviceTraits& device,
                                                   int64_t most_copied = kMostCopiedBytes, bool sums_bias = false);
// The best of them for a device. `sums_bias`: the bias's gradient is wanted, too; none where rows do not have it.
std::optional<WeightGradPlan> plan_weight_grad(const Problem& problem, DataType dtype, int terms,
                                               const Operands& operands, bool sums_bias, const DeviceTraits& device);
// `channel_rows_of_grad`: the tile of grad_output may have them.
GradLayouts grad_layouts(const Problem& problem, DataType dtype, const Operands& operands,
                         bool channel_rows_of_grad = true);
// The input's tile of channel rows, for boxes that the plan has.
StagedTile input_channel_rows(const WeightGradPlan& plan, const std::array<TileAxis, 3>& axis);
// Which operands are copied: "both", "grad_output", "input" or "none".
const char* copied_name(const WeightGradPlan& plan);
std::string to_string(const WeightGradPlan& plan);

}  // namespace convt3d::mma
