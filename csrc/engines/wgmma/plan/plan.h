// The tensor-core engine's plan: a block keeps a tile of the input with its halo in shared memory and serves every tap
// and phase from it. In GEMM's names, M is (phases, output channel), N is positions u of the phase grid, K is (tap,
// input channel).
// - Panels: the tile is stored as [panel][position][32, 64 or 128 bytes of channels], in wgmma's swizzle of that width.
//   The swizzle follows the address, so that a tap is a shift of the operand's address by whole positions.
// - Rows of positions: where every tap reads the position itself and the input's width is contiguous, 16-bit panels may
//   be as the input is, N contiguous: [16, 32 or 64 positions][channel] rows of so many positions. Nothing transposes.
// - Positions: those of a tile are numbered with the halo's columns and rows between them, so that one instruction's N
//   columns are neighbours in memory; the columns that fall on the halo are computed and dropped. Where volumes are
//   small, 8 images share a tile, the image counting fastest.
// - Rows: M is cut into slabs of 16 rows, a warp's share. Phases join M while the channels alone leave rows empty.
//   Phases that share M share their offsets; at an offset where one has no tap its weight is zero. Where the width is
//   contiguous in the output, its two phases stay neighbours: either rows r and r + 8 of a slab are the phases of 8
//   channels, or the phases are two sets of accumulators.
// - Sets of accumulators, of half the columns each, bring more neighbours of the output into one warp: the phases of
//   the width; or, with pairs of rows for those, the phases of the height, so that whole rows of the output follow one
//   another; or, where channels are contiguous, a slab's channels 0-15 and 16-31.
// - Folds: of an axis with stride 1, neighbouring outputs can fill such rows as if they were phases of stride 2. Then u
//   steps over two source positions, and a panel holds the even ones and the odd ones apart, so that a tap's operand
//   remains a run of neighbours.
// - Groups: some may be joined into one, whose weight is block-diagonal. Of few channels each, they then fill whole
//   steps of K, whole slabs and whole sectors of memory.
// - Terms: float32 proper is split into two TF32 numbers, high + low ("3xTF32"), each with panels and weights. A step
//   of K is then three products: low x high, high x low, high x high.
// - Units: the phases outside M and the tiles of M, each a pass over the resident tile; `splits` shares them out.
// - Phase halos: a tile that is loaded for each unit anew needs the halo of that unit's phase only, which of an even
//   kernel with stride 2 is a position narrower: fewer bytes to load and fewer columns that are dropped.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/device_traits.h"
#include "core/divisor.h"
#include "core/phase_map.h"
#include "core/problem.h"
#include "engines/wgmma/plan/staging.h"

namespace convt3d {

constexpr int kHaloMaxOffsets = 16;  // along one axis
constexpr int kHaloMaxStride = 2;
constexpr int kHaloMaxPhases = 8;
constexpr int kHaloMaxJoined = 4;         // groups
constexpr int kHaloMaxSegments = 16;      // phases x sets
constexpr int kHaloMaxTableStages = 512;  // of a chunk, over all segments
constexpr int kHaloMaxRing = 12;          // stages of the weight ring
constexpr int kHaloMaxSlots = 4;          // tiles, or chunks of their channels, in shared memory
constexpr int kHaloStageBlocks = 4;       // of the packed weight in a stage of the ring: steps of K x terms
constexpr int kHaloBlockBytes = 2048;     // of a block: [2][64 rows][16 bytes]
constexpr int kHaloOperandBytes = 32;     // of one row in a step of K
constexpr int kHaloRowChannels = 16;      // of one step of K, where panels have rows of positions
constexpr int kHaloStageBytes = kHaloStageBlocks * kHaloBlockBytes;
constexpr int kHaloTileRowsLog = 6;  // of M, in one instruction
constexpr int kHaloTileRows = 1 << kHaloTileRowsLog;
constexpr int kHaloBarrierBytes = 1024;
constexpr int kHaloMultiplyWarps = 8;
constexpr int kHaloColumnBytes = 2;          // of the table of columns
constexpr int kHaloStoredSegmentBytes = 16;  // of the table of segments
constexpr int kHaloLoaderWarps = 3;
constexpr int kHaloBoxBuffers = 2;     // of one loader warp, where the input is transposed on its way
constexpr int kHaloBoxBytes = 6144;    // of one of them
constexpr int kHaloSourceBytes = 4;    // of the table of sources
constexpr int kHaloWordsInFlight = 4;  // of a thread that transposes boxes of planes
constexpr int kHaloMaxClasses = 256;   // of blocks, by the weights that they keep
constexpr int kHaloMaxTile[3] = {127, 255, 510};

// The offsets that one residue (or, where the axis' residues share M, all of them) reads, and the tap of each residue
// there.
struct HaloTaps {
  int32_t count;
  int32_t low;  // step of u at which a tile with its halo begins, of phase halos for these offsets
  int32_t offset[kHaloMaxOffsets];
  int32_t tap[kHaloMaxOffsets][kHaloMaxStride];  // -1: no tap
};

struct HaloAxis {
  int32_t stride;                 // from one u to the next, in outputs
  int32_t fold;                   // ... and in source positions: 2 or 1
  int32_t in_m;                   // residues that share M: stride or 1
  int32_t outer;                  // residues outside M: stride / in_m
  HaloTaps taps[kHaloMaxStride];  // of each outer residue
  int32_t low;                    // ... of other tiles
  int32_t reach;                  // positions of a tile's halo beyond the tile
  int32_t src_size;
  int32_t dst_size;
  int32_t positions;  // extent of u

  // An offset: steps of u and, where positions are folded, which of the two.
  CONVT3D_HOST_DEVICE int32_t step_of(int32_t offset) const { return offset >> (fold - 1); }
  CONVT3D_HOST_DEVICE int32_t fold_of(int32_t offset) const { return offset & (fold - 1); }
};

// Where the parts of a block's shared memory begin, in bytes. The tiles come first: columns that are dropped may be
// read past a tile's end.
struct HaloMemory {
  int32_t tiles;
  int32_t staging;
  int32_t ring;
  int32_t columns;
  int32_t segments;
  int32_t shifts;
  int32_t boxes;
  int32_t sources;
  int32_t bytes;
};

// Of those instructions and sets whose kernels know images of a contiguous width.
CONVT3D_HOST_DEVICE constexpr bool halo_stores_images(int32_t n, int32_t sets) { return n == (sets == 2 ? 80 : 160); }

// ... and those that multiply rows of positions.
CONVT3D_HOST_DEVICE constexpr bool halo_multiplies_rows(int32_t n, int32_t sets) {
  return n == 128 || (sets == 2 ? n == 64 : n >= 192);
}

// In the table of columns, of a warpgroup: those of whole steps that are read at once.
CONVT3D_HOST_DEVICE constexpr int32_t halo_table_columns(int32_t n) { return (n + 63) & -64; }

struct HaloPlan {
  bool usable;
  double cost;  // expected, in clocks
  std::array<HaloAxis, 3> axis;
  int64_t batch;
  int64_t groups;        // after joining
  int32_t joined;        // of the layer's groups, in each of these
  int32_t terms;         // of an operand: 1 or, of float32 proper, 2
  int32_t in_channels;   // per group
  int32_t out_channels;  // per group

  bool pair_rows;  // rows r and r + 8 are the two width phases of 8 channels
  int32_t sets;    // of accumulators
  int32_t slab_channels;
  int32_t channel_slabs;
  int32_t slabs;
  int32_t m_tiles;  // of 64 rows
  int32_t phases;   // outside M and sets
  bool phase_halos;
  int8_t row_log;    // log2 of the positions in a row of panels with N contiguous; 0: K is
  bool phase_pairs;  // the phases of the width are neighbouring units, whose outputs are stored together
  // The products of a chunk come in segments, one for each phase and set, each from a stage's beginning on.
  int32_t segment_steps[kHaloMaxSegments];
  int32_t segment_first[kHaloMaxSegments + 1];  // stage
  int32_t splits;                               // of the units (m_tiles x phases) over blocks

  int32_t n;             // columns of one instruction, a warpgroup's share of a tile
  int32_t image_log;     // log2 of the images that share a tile
  int32_t tile[3];       // positions of a tile along each axis
  int32_t halo[3];       // ... with the halo
  int32_t tiles[3];      // along each axis
  int64_t image_tiles;   // along the batch
  int32_t second_start;  // first column of the second warpgroup, counted in the tile's positions
  int32_t columns;       // of a warpgroup that can be outputs
  int32_t row_bytes;     // of a panel's positions
  int32_t fold_bytes;    // of one fold of a panel
  int32_t panels;        // of all channels of a group
  int32_t chunk_panels;  // in a slot
  int32_t tap_steps;     // steps of K of one tap in a chunk
  int32_t box_width;     // of boxes that are transposed on their way (the halo's, aligned); 0: other ways of loading
  int32_t box_rows;      // ... rows along the height
  int32_t box_depths;    // more than one only with all rows
  int32_t row_boxes;     // along the tile's height
  int32_t depth_boxes;
  int32_t box_images;    // of boxes of whole planes, where images share a tile; 0: other ways of loading
  int32_t box_words;     // ... of 4 bytes, of an image's channel
  int32_t word_entries;  // ... in the table: whole steps, and the first once more for images that begin later
  int32_t zero_entries;  // ... positions without a word: whole steps
  int32_t slots;
  int32_t ring;           // stages
  bool resident_weights;  // the ring holds all stages of a block's units
  bool alternate;         // the warpgroups multiply in turns, each storing while the other multiplies
  HaloStaging staging;
  HaloMemory memory;
  int64_t packed_bytes;
  Divisor by_splits;
  Divisor by_groups;
  Divisor by_tiles[3];
  Divisor by_phases;
  Divisor by_channel_slabs;

  CONVT3D_HOST_DEVICE bool height_sets() const { return sets == 2 && pair_rows; }
  CONVT3D_HOST_DEVICE bool channel_sets() const { return slab_channels == 32; }
  CONVT3D_HOST_DEVICE bool width_sets() const { return sets == 2 && !pair_rows && !channel_sets(); }
  // The input is transposed on its way.
  CONVT3D_HOST_DEVICE bool transposes() const { return box_width > 0 || box_images > 0; }
  CONVT3D_HOST_DEVICE int32_t halo_positions() const { return halo[0] * halo[1] * halo[2]; }
  // Of boxes of planes: elements of an image's channel, positions of a tile that receive none, and tables of both, one
  // for each phase of the height and the width that has its own halo.
  CONVT3D_HOST_DEVICE int32_t plane_elements() const { return halo[0] * axis[1].src_size * axis[2].src_size; }
  CONVT3D_HOST_DEVICE int32_t zero_positions() const { return halo_positions() - plane_elements(); }
  CONVT3D_HOST_DEVICE int32_t source_tables() const {
    return box_images == 0 ? 0 : phase_halos ? axis[1].outer * axis[2].outer : 1;
  }
  CONVT3D_HOST_DEVICE int32_t source_entries() const { return word_entries + zero_entries; }
  CONVT3D_HOST_DEVICE int32_t table_columns() const { return halo_table_columns(n); }
  CONVT3D_HOST_DEVICE int32_t units() const { return m_tiles * phases; }
  CONVT3D_HOST_DEVICE int32_t folds() const { return axis[0].fold * axis[1].fold; }
  CONVT3D_HOST_DEVICE int32_t panel_bytes() const { return folds() * fold_bytes; }
  CONVT3D_HOST_DEVICE int32_t chunks() const { return panels / chunk_panels; }
  // The tile, or its chunks, are loaded for each unit anew.
  CONVT3D_HOST_DEVICE bool unit_loads() const { return chunks() > 1 || phase_halos; }
  CONVT3D_HOST_DEVICE int32_t term_bytes() const { return chunk_panels * panel_bytes(); }
  CONVT3D_HOST_DEVICE int32_t slot_bytes() const { return terms * term_bytes(); }
  // Of rows of positions: they follow one another through the input's rows, which the tile has whole. Else each is the
  // tile's width.
  CONVT3D_HOST_DEVICE bool rows_cross_widths() const { return tile[2] == axis[2].src_size && tiles[2] == 1; }
  // ... of one of their positions, with all channels of a chunk.
  CONVT3D_HOST_DEVICE int32_t row_position_bytes() const { return tap_steps * kHaloOperandBytes; }
  CONVT3D_HOST_DEVICE int32_t stage_steps() const { return kHaloStageBlocks / terms; }
  CONVT3D_HOST_DEVICE int32_t stage_products() const { return terms == 2 ? 3 * stage_steps() : stage_steps(); }
  CONVT3D_HOST_DEVICE int32_t phase_of(int32_t unit) const {
    return by_phases.remainder(unit, by_phases.quotient(unit));
  }
  // First stage of a phase, and the stages of a whole tile of M (phase = phases), in the packed weight.
  CONVT3D_HOST_DEVICE int32_t first_stage(int phase) const { return chunks() * segment_first[phase * sets]; }
  CONVT3D_HOST_DEVICE int32_t stages() const { return first_stage(phases); }
  // Of the weight and, behind it, the counters of items.
  CONVT3D_HOST_DEVICE int64_t workspace_bytes() const {
    return packed_bytes == 0 ? 0 : packed_bytes + kHaloMaxClasses * int64_t{sizeof(uint32_t)};
  }
  CONVT3D_HOST_DEVICE int64_t items() const { return groups * image_tiles * tiles[0] * tiles[1] * tiles[2] * splits; }
};

// The residues of one unit's outer phase and one of its sets.
struct HaloPhase {
  int32_t depth;
  int32_t height;
  int32_t width;
};

CONVT3D_HOST_DEVICE inline HaloPhase halo_phase(const HaloPlan& plan, int phase, int set = 0) {
  // The counts are 1 or 2: a shift divides.
  const int widths = plan.width_sets() ? 1 : plan.axis[2].outer;
  const int heights = plan.height_sets() ? 1 : plan.axis[1].outer;
  const int rest = phase >> (widths - 1);
  const int height = plan.height_sets() ? set : rest & (heights - 1);
  const int width = plan.width_sets() ? set : phase & (widths - 1);
  return {rest >> (heights - 1), height, width};
}

// The residues inside M and the first output channel of one slab: 16 rows of each set.
struct HaloSlab {
  int32_t depth;
  int32_t height;
  int32_t width;
  int32_t channel;  // in the group; at or past out_channels where the slab is padding
};

CONVT3D_HOST_DEVICE inline HaloSlab halo_slab(const HaloPlan& plan, int slab) {
  HaloSlab result;
  result.channel = plan.by_channel_slabs.take(slab) * plan.slab_channels;
  result.width = 0;
  if (!plan.pair_rows) {
    result.width = slab & (plan.axis[2].in_m - 1);
    slab >>= plan.axis[2].in_m - 1;
  }
  result.height = slab & (plan.axis[1].in_m - 1);
  result.depth = slab >> (plan.axis[1].in_m - 1);
  if (result.depth >= plan.axis[0].in_m) result.channel = plan.out_channels;
  return result;
}

// How elements enter the tensor cores.
struct HaloElement {
  int32_t bytes;  // 4: float32, or 2
  int32_t terms;  // 1 (float32 is rounded to TF32), or 2 of float32 proper
};

// The blocks that share a plan's items, one on each multiprocessor at most.
struct HaloGrid {
  int64_t blocks;
  uint32_t weight_classes;  // of blocks, by the weights that they keep for all of their items; 0: they keep none
};

HaloGrid halo_grid(const HaloPlan& plan, int multiprocessors);
// How much later the second warpgroup begins: where they do not take turns, one then stores while the other multiplies.
uint32_t lag_clocks(const HaloPlan& plan);
// Stages of the ring that the units of one split fill, at most.
int64_t most_stages(const HaloPlan& plan);
// `channels_last`: the output's format.
std::vector<HaloPlan> halo_candidates(const Problem& problem, HaloElement element, bool channels_last,
                                      const DeviceTraits& device);
// The cheapest candidate; not usable where there is none.
HaloPlan plan_halo_forward(const Problem& problem, HaloElement element, bool channels_last, const DeviceTraits& device);
std::string to_string(const HaloPlan& plan);

}  // namespace convt3d
