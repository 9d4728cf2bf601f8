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
#include "engines/mma/weight_grad/bias_taps.h"

namespace convt3d::mma {

constexpr int kGradWarps = 8;     // that multiply
constexpr int kLoadingWarps = 4;  // that fill shared memory
constexpr int kGradThreads = 32 * (kGradWarps + kLoadingWarps);
constexpr int kGradStep = 16;  // positions that are multiplied at once
constexpr int kMostGradStages = 4;
constexpr int kLoadingThreads = 32 * kLoadingWarps;
constexpr int kGradShareBytes = 48 * kGradWarps;  // in shared memory
constexpr int kGradBarrierBytes = 144;            // ...
constexpr int kBiasFragmentBytes = 4;             // ... of one that a loading warp sums
constexpr int kGradEightBytes = 16;               // ... of an eight of rows
// Threads that share the splits of one sum, where there are many; fewer where there are many sums, too.
constexpr int kSumLanes = 8;
constexpr int kFewSumLanes = 4;

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
// ... of so many or fewer.
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
  int32_t shares;          // of the warps
  int32_t places;          // of the positions of a box: rows of both tiles
  int32_t eights;          // of rows (tap, output channel): where each is in the tile of grad_output, and in the sums
  int32_t bias;            // float32: sums of rows; bias_rows.cuh
  int32_t bias_units;      // float32: those of each loading warp's
  int32_t bias_fragments;  // how many eights there are, and which of their fragments count
  int32_t grad_fixed;      // of the loaders, the same for all boxes
  int32_t input_fixed;
  int32_t tables;       // of the loaders, of each box that is on its way and of the one that has arrived
  int32_t input_table;  // in them, behind that of grad_output
  int32_t table_bytes;
  int32_t raw;        // raw rows of the boxes that are on their way
  int32_t input_raw;  // in them
  int32_t raw_bytes;
  int32_t stages;
  int32_t input;  // in a stage, behind the tile of grad_output; one row of zeros follows it, but of channel rows
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
};

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
  std::array<int32_t, 3> box;    // positions
  int32_t images;                // of a box
  std::array<int64_t, 4> boxes;  // along images, depth, height, width
  StagedTile grad;
  StagedTile input;
  LoadShape grad_shape;
  LoadShape input_shape;
  double grad_accesses;  // read_accesses() of both tiles, where they have rows of channels; else 1
  double input_accesses;
  int32_t columns;       // fragments of a warp
  int32_t warps_groups;  // warps beside each other: groups,
  int32_t warps_m;       // rows,
  int32_t warps_n;       // columns,
  int32_t warps_k;       // steps of K
  int32_t row_chunk;     // output channels of a block and group, whole eights
  int32_t n_chunk;       // input channels
  int32_t row_chunks;
  int32_t n_chunks;
  int32_t group_blocks;
  int32_t steps;   // of K in a box
  int32_t stages;  // boxes in shared memory
  int32_t ahead;   // boxes that are begun at most before the first of them is awaited
  int64_t splits;  // blocks that share one tile's boxes, those of a portion
  int64_t split_boxes;
  int32_t segment_boxes;  // summed in registers before they join the sum in memory
  GradLayout layout;
  std::optional<BiasTaps> bias;  // the bias's gradient is wanted, too
  bool loaders_sum_bias;         // ... and its rows are summed by the warps that load
  bool beside;                   // begins beside the kernel before it, and ends after that
  double cost_ms;                // expected

  int64_t part_count() const { return int64_t{taps[0].parts} * taps[1].parts * taps[2].parts; }
  int64_t tiles() const { return part_count() * row_chunks * n_chunks * group_blocks; }
  int64_t blocks() const { return tiles() * splits; }
  int64_t box_count() const { return boxes[0] * boxes[1] * boxes[2] * boxes[3]; }
  // That one launch sums.
  int64_t launch_boxes() const { return portion_boxes(portions, boxes); }
  bool copies() const { return grad_copy.exists || input_copy.exists; }
  bool has(LoadWay way) const { return layouts.grad == way || layouts.input == way; }
  // There is nothing left to do for a box that has arrived.
  bool only_copies() const { return copies_only(layouts.grad) && copies_only(layouts.input); }
  // The loaders' tables: while one is read, the next is made; those of boxes that have arrived may be read again.
  int32_t tables() const { return only_copies() ? 2 : ahead + 1; }
  // Stages are written when their boxes have arrived, not before.
  bool only_rows() const { return layouts.grad == LoadWay::kRows && layouts.input == LoadWay::kRows; }
  // Of a block and group.
  int32_t most_eights() const { return taps[0].most * taps[1].most * taps[2].most * (row_chunk / 8) * halves(); }
  // Of a word: positions of the input, and taps of a word tap.
  int32_t halves() const { return pairs.exist ? 2 : 1; }
  // Of the kernel along the width.
  int32_t width_taps() const { return pairs.exist ? pairs.taps : taps[2].taps; }
  int32_t most_fragments() const { return (most_eights() + 1) / 2; }
  // Sums that are added in the end: [slot][group][tap][output channel][input channel], float32; two input channels are
  // stored at once.
  int64_t slots() const { return splits * warps_k; }
  int32_t n_pitch() const { return (n_channels + 1) / 2 * 2; }
  int64_t slot_elements() const {
    return groups * taps[0].taps * taps[1].taps * width_taps() * row_channels * n_pitch();
  }
  OrderedSumShape sum_shape() const {
    const int64_t sums = slot_elements();
    const int32_t lanes = slots() < kSumLanes ? 1 : sums >= many_elements(kFewSumLanes) ? kFewSumLanes : kSumLanes;
    return ordered_sum_shape(lanes, sums);
  }
  // ... and of the bias's gradient: [split][part of the taps][output channel], float32.
  int64_t bias_slots() const { return splits * part_count(); }
  int64_t bias_bytes() const { return bias ? 4 * bias_slots() * groups * row_channels : 0; }
  // The workspace: these sums, then what is copied.
  int64_t partial_bytes() const { return 4 * slots() * slot_elements(); }
  int64_t bias_offset() const { return workspace_part(partial_bytes()); }
  int64_t sums_bytes() const { return bias ? bias_offset() + bias_bytes() : partial_bytes(); }
  int64_t grad_copy_offset() const { return workspace_part(sums_bytes()); }
  int64_t input_copy_offset() const { return grad_copy_offset() + workspace_part(grad_copy.bytes()); }
  int64_t workspace_bytes() const { return copies() ? input_copy_offset() + input_copy.bytes() : sums_bytes(); }
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
// ... and those that copy operands. `most_copied`: bytes of a portion's copies.
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
