// Problem -> how forward and input gradient are laid out on the tensor cores, as data. Knows nothing of torch or CUDA.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/device_traits.h"
#include "core/integer.h"
#include "core/phase_map.h"
#include "core/problem.h"
#include "core/weight_order.h"
#include "engines/mma/tile/layouts.h"
#include "engines/mma/tile/load_shape.h"
#include "engines/mma/tile/portions.h"
#include "engines/mma/tile/shape.h"
#include "engines/mma/tile/tile.h"
#include "engines/mma/tile/width_pairs.h"

namespace convt3d::mma {

constexpr int kMostResidues = 32;
// Shares of phases whose walkers differ in number.
constexpr int kMostPhaseBlocks = 64;

// The residues of one axis, those without a tap too: what they write is a sum of nothing.
struct Residues {
  int32_t count;   // step of the destination
  int32_t size;    // of the destination
  int32_t extent;  // most positions u of a residue
  int32_t taps;    // of all residues
  int16_t first_tap[kMostResidues];
  int16_t tap_count[kMostResidues];
  int16_t taps_before[kMostResidues];  // of the residues before
  int32_t tap_step;
};

// How a block's sums go to memory: a lane's channels as one store, words of two neighbours along the width, each of
// which is two columns of the product, or rows of the width, put together in shared memory.
enum class StoreWay : int { kRows, kChannels, kPairs };

struct CorrelationPlan {
  std::array<AxisMap, 3> axis;
  std::array<Residues, 3> residues;
  StagedTile tile;
  LoadShape load;
  Shape shape;
  int32_t terms;
  int32_t joined;  // groups of the problem that are one here; weights between them are zeros
  LoadWay way;
  bool masked;           // the source counts only where the mask is not <= 0, and is not copied
  WidthPairs pairs;      // of the source, whose elements are words then, or of what StoreWay::kPairs stores
  int32_t source_bytes;  // of an element of the source, as the kernel reads it
  OperandCopy copy;      // of the source, which is then what the kernel reads
  Portions portions;
  int64_t batch;
  int64_t groups;
  int32_t k_channels;  // of a group, summed
  int32_t n_channels;  // columns of the product, of a group: channels written, or two for each of them
  std::array<int32_t, 3> box;
  BoxOrder order;                // of its positions
  std::array<int64_t, 4> boxes;  // along images, depth, height, width
  int32_t n_blocks;
  int32_t chunks;
  int32_t chunk_steps;     // steps of K in a chunk
  int32_t ahead;           // stages that are on their way at once
  int32_t buffers;         // of staged tiles
  int32_t block_phases;    // residues that a block computes one after another
  int32_t blocks_at_once;  // on a multiprocessor
  // Blocks that have the same share and take turns at the boxes: where all shares have as many, so many, else 0 and,
  // for each share of phases, the first and the one behind its last.
  int64_t walkers;
  std::array<int32_t, kMostPhaseBlocks + 1> first_walker;
  int32_t k_splits;      // blocks that share the sums of a box, each of which has some stages
  int32_t split_stages;  // of a block, of each phase
  StoreWay store;
  int32_t channel_vector;  // neighbouring channels that are one store, where channels are stored
  bool joins_width;        // staged rows have all residues of the width
  int32_t row_vector;      // elements of a row that are one aligned store
  int32_t table_steps;     // of K of a block's phases, for one chunk
  int32_t weight_steps;    // of K that a block multiplies of one box, in all of its stages
  bool weights_stay;       // in shared memory, for all of a block's boxes; else they come again for each
  int32_t slot_steps;      // whose weights come together
  int32_t slots;           // of weights
  int32_t staging_bytes;   // of rows to be stored
  int32_t staging_pitch;   // bytes from a channel's staged rows to the next channel's
  bool stages_matrices;    // rows are staged as matrices of eight channels and positions
  int32_t shared_bytes;
  int64_t packed_bytes;
  bool packs_beside;   // its weight, beside the kernel before it, and is done after that
  bool source_beside;  // what the weight is packed beside writes the source, which is waited for
  double cost_ms;      // expected
  double unstored_ms;  // expected where the epilogue only gathers moments

  bool reads_pairs() const { return pairs.exist && store != StoreWay::kPairs; }
  int64_t phases() const { return int64_t{residues[0].count} * residues[1].count * residues[2].count; }
  int64_t box_count() const { return boxes[0] * boxes[1] * boxes[2] * boxes[3]; }
  // That one launch computes.
  int64_t launch_boxes() const { return portion_boxes(portions, boxes); }
  // Channels of what the kernel reads, from a group to the next.
  int32_t source_group() const { return copy.exists ? copy.padded : k_channels; }
  int64_t phase_blocks() const { return phases() / block_phases; }
  // Group, block of channels and phases, which a block keeps.
  int64_t shares() const { return groups * n_blocks * phase_blocks(); }
  // Of all shares of phases, of one group and block of channels.
  int64_t all_walkers() const {
    return walkers > 0 ? phase_blocks() * walkers : first_walker[static_cast<size_t>(phase_blocks())];
  }
  int64_t least_walkers() const {
    if (walkers > 0) return walkers;
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < static_cast<size_t>(phase_blocks()); ++i) {
      least = std::min<int64_t>(least, first_walker[i + 1] - first_walker[i]);
    }
    return least;
  }
  int64_t blocks() const { return groups * n_blocks * k_splits * all_walkers(); }
  // Sums of a block's tile, in float32.
  int64_t tile_bytes() const {
    const ShapeExtent extent = shape_extent(shape, terms);
    return int64_t{4} * extent.m() * extent.n();
  }
  // Of each image and channel, that epilogues leave moments of: a warp's share of a box, of one phase. None where
  // images share boxes, nor where columns are halves of words, nor with channel rows, which leave the kernel no
  // registers for it.
  int64_t moment_parts() const {
    if (tile.images > 1 || tile.has_channel_rows() || store == StoreWay::kPairs) return 0;
    const ShapeExtent extent = shape_extent(shape, terms);
    return boxes[1] * boxes[2] * boxes[3] * (extent.m() / extent.warp_m) * phases();
  }
  // The workspace: packed weight and, where K is split, a counter of each share and box, and their [split][sums]; then
  // what is copied of the source.
  int64_t counters() const { return k_splits > 1 ? shares() * box_count() : 0; }
  int64_t counter_offset() const { return workspace_part(packed_bytes); }
  int64_t partial_offset() const { return counter_offset() + workspace_part(4 * counters()); }
  int64_t partial_bytes() const { return counters() * k_splits * tile_bytes(); }
  int64_t kernel_bytes() const { return k_splits > 1 ? partial_offset() + partial_bytes() : packed_bytes; }
  int64_t copy_offset() const { return workspace_part(kernel_bytes()); }
  int64_t workspace_bytes() const { return copy.exists ? copy_offset() + copy.bytes() : kernel_bytes(); }
  int32_t stages() const { return chunks * tile.axis[0].stages() * tile.axis[1].stages() * tile.axis[2].stages(); }
  // Of the weight, of a lane and one term.
  int64_t packed_pieces() const {
    const ShapeExtent extent = shape_extent(shape, terms);
    const int64_t in_step = extent.warps_n * (extent.warp_n > 8 ? extent.warp_n / 16 : 1) * 32;
    return groups * n_blocks * taps() * chunks * chunk_steps * in_step;
  }
  // Neighbouring threads that pack the weight are lanes, else taps of the width: whichever are closer in it.
  bool packs_lanes_first(const WeightStrides& weight) const {
    return residues[2].taps == 1 || std::min(weight.k, weight.n) < weight.tap[2];
  }
  bool splits() const { return tile.axis[0].split || tile.axis[1].split || tile.axis[2].split; }
  // The loader's tables: of stages that are on their way, and of one that begins.
  int32_t tables() const { return ahead + 1; }
  int64_t raw_bytes() const { return load.raw_bytes(masked); }
  int32_t table_bytes() const { return static_cast<int32_t>(round_up(load.table_bytes(masked), 16)); }
  int32_t taps() const { return residues[0].taps * residues[1].taps * residues[2].taps; }
};

// False where an axis has too many.
bool make_residues(const AxisMap& map, Residues& residues);

enum class Correlation { kForward, kInputGrad };

// The cheapest; none where the problem is not for the engine. `most_copied`: bytes of a copy.
std::optional<CorrelationPlan> plan_correlation(const Problem& problem, Correlation correlation, DataType dtype,
                                                int terms, const Tensors& tensors, const DeviceTraits& device,
                                                int64_t most_copied = kMostCopiedBytes);
// All that it would run.
std::vector<CorrelationPlan> correlation_candidates(const Problem& problem, Correlation correlation, DataType dtype,
                                                    int terms, const Tensors& tensors, const DeviceTraits& device,
                                                    int64_t most_copied = kMostCopiedBytes);
std::string to_string(const CorrelationPlan& plan);

}  // namespace convt3d::mma
