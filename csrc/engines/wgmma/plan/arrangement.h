// How the rows of M are made up, and the taps and halos that follow from it.
// - Slabs: M is cut into slabs of 16 rows, a warp's share of an instruction. Phases join M while the channels alone
//   leave rows empty. Phases that share M share their offsets; at an offset where one of them has no tap, its weight is
//   zero. Where the width is contiguous in the output, its two phases stay neighbours: either rows r and r + 8 of a
//   slab are the phases of 8 channels, or the phases are two accumulator sets.
// - Accumulator sets: two sets, of half the columns each, bring more neighbours of the output into one warp: the
//   phases of the width; or, with pairs of rows for those, the phases of the height, so that whole lines of the output
//   follow one another; or, where channels are contiguous, channels 0-15 and 16-31 of a slab.
// - Folds: where u steps over two input positions, a panel holds the even ones and the odd ones apart, so that a tap's
//   operand remains a run of neighbours. So it is of input gradients with stride 2; and where neighbouring outputs of
//   an axis with stride 1 are joined, which fill rows of M as if they were phases of stride 2.
// - Folds apart: the folds of an input gradient may come one after another instead, each as a phase with its own taps
//   and halo. All these phases are parts of one sum. A fold that no tap reads is not loaded.
// - Phase halos: a tile that is loaded for each pass anew needs the halo of that pass's phase only, which of an even
//   kernel with stride 2 is a position narrower: fewer bytes to load and fewer columns that are dropped.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/divisor.h"
#include "core/host_device.h"
#include "core/one_or_two.h"
#include "engines/wgmma/plan/limits.h"
#include "engines/wgmma/plan/problem.h"
#include "engines/wgmma/plan/product.h"

namespace convt3d {

// The offsets that one residue (or, where the axis' residues share M, all of them) reads, and the tap of each residue
// there.
struct WgmmaTaps {
  int32_t count;
  int32_t low;   // shift of u at which the halo of a tile begins; of phase halos, for these offsets alone
  int32_t fold;  // that the offsets read, where folds are apart; else 0
  int32_t offset[kWgmmaMaxOffsets];
  int32_t tap[kWgmmaMaxOffsets][kWgmmaMaxStride];  // -1: no tap
};

struct WgmmaAxis {
  OneOrTwo stride;                  // from one u to the next, in outputs
  OneOrTwo fold;                    // from one u to the next, in input positions
  OneOrTwo in_m;                    // residues that share M: stride or 1
  OneOrTwo outer;                   // residues outside M: stride / in_m; of folds apart, folds that taps read
  WgmmaTaps taps[kWgmmaMaxStride];  // of each outer residue
  int32_t low;                      // shift of u at which a halo for all residues begins
  int32_t reach;                    // positions of a tile's halo beyond the tile
  int32_t src_size;
  int32_t dst_size;
  int32_t positions;  // extent of u

  // An offset is a shift of u and, where positions are folded, which of the two.
  CONVT3D_HOST_DEVICE int32_t shift_of(int32_t offset) const { return fold.quotient(offset); }
  CONVT3D_HOST_DEVICE int32_t fold_of(int32_t offset) const { return fold.remainder(offset); }
};

// What a slab's 16 rows are and, where a warp has two accumulator sets, what the sets are.
enum class WgmmaSlabForm : int32_t {
  kChannels,              // rows: 16 channels of one phase
  kWidthPairs,            // rows r and r + 8: the two phases of the width, of 8 channels
  kWidthPairsHeightSets,  // the same rows; sets: the two phases of the height
  kWidthSets,             // rows: 16 channels; sets: the two phases of the width
  kChannelSets,           // rows: 16 channels; sets: channels 0-15 and 16-31
};

// The residues of a phase outside M, with one of its accumulator sets.
struct WgmmaPhase {
  int32_t depth;
  int32_t height;
  int32_t width;
};

// The residues inside M and the first output channel of one slab.
struct WgmmaSlab {
  int32_t depth;
  int32_t height;
  int32_t width;
  int32_t channel;  // in the group; at or past out_channels where the slab is padding
};

struct WgmmaArrangement {
  WgmmaSlabForm form;
  bool phase_halos;
  bool folds_apart;  // phases are folds, and their products one sum
  std::array<WgmmaAxis, 3> axis;
  int32_t channel_slabs;  // slabs of all output channels of a group, of one phase in M
  int32_t slabs;
  int32_t m_tiles;  // of 64 rows
  int32_t phases;   // outside M and the accumulator sets
  Divisor by_phases;
  Divisor by_channel_slabs;

  CONVT3D_HOST_DEVICE bool width_pairs() const {
    return form == WgmmaSlabForm::kWidthPairs || form == WgmmaSlabForm::kWidthPairsHeightSets;
  }
  CONVT3D_HOST_DEVICE bool height_sets() const { return form == WgmmaSlabForm::kWidthPairsHeightSets; }
  CONVT3D_HOST_DEVICE bool width_sets() const { return form == WgmmaSlabForm::kWidthSets; }
  CONVT3D_HOST_DEVICE bool channel_sets() const { return form == WgmmaSlabForm::kChannelSets; }
  // A pass has both phases of the width.
  CONVT3D_HOST_DEVICE bool both_widths() const { return width_pairs() || width_sets(); }
  CONVT3D_HOST_DEVICE OneOrTwo sets() const {
    return {form == WgmmaSlabForm::kChannels || form == WgmmaSlabForm::kWidthPairs ? 1 : 2};
  }
  CONVT3D_HOST_DEVICE int32_t slab_channels() const {
    return width_pairs() ? kWgmmaSlabRows / 2 : channel_sets() ? 2 * kWgmmaSlabRows : kWgmmaSlabRows;
  }
  // Folds that a panel has.
  CONVT3D_HOST_DEVICE int32_t folds() const { return folds_apart ? 1 : axis[0].fold * axis[1].fold * axis[2].fold; }
  CONVT3D_HOST_DEVICE bool folded() const { return axis[0].fold * axis[1].fold * axis[2].fold > 1; }
  // Phases whose products are one sum, and those that are stored.
  CONVT3D_HOST_DEVICE int32_t summed_phases() const { return folds_apart ? phases : 1; }
  CONVT3D_HOST_DEVICE int32_t stored_phases() const { return folds_apart ? 1 : phases; }
  CONVT3D_HOST_DEVICE int32_t passes() const { return m_tiles * phases; }
  CONVT3D_HOST_DEVICE int32_t phase_of(int32_t pass) const {
    return by_phases.remainder(pass, by_phases.quotient(pass));
  }

  CONVT3D_HOST_DEVICE WgmmaPhase phase(int32_t index, int32_t set = 0) const {
    const OneOrTwo widths = width_sets() ? OneOrTwo{1} : axis[2].outer;
    const OneOrTwo heights = height_sets() ? OneOrTwo{1} : axis[1].outer;
    const int32_t rest = widths.quotient(index);
    return {heights.quotient(rest), height_sets() ? set : heights.remainder(rest),
            width_sets() ? set : widths.remainder(index)};
  }
  CONVT3D_HOST_DEVICE WgmmaSlab slab(const WgmmaProduct& product, int32_t index) const {
    WgmmaSlab result;
    result.channel = by_channel_slabs.take(index) * slab_channels();
    result.width = 0;
    if (!width_pairs()) {
      result.width = axis[2].in_m.remainder(index);
      index = axis[2].in_m.quotient(index);
    }
    result.height = axis[1].in_m.remainder(index);
    result.depth = axis[1].in_m.quotient(index);
    if (result.depth >= axis[0].in_m) result.channel = product.out_channels;
    return result;
  }
};

// From an output of a phase to the next, along depth, height and width.
using WgmmaStrides = std::array<OneOrTwo, 3>;
// The strides of a problem's outputs; nothing where one, or one of its input's, is larger than the engine knows.
std::optional<WgmmaStrides> wgmma_strides(const WgmmaProblem& problem);

struct WgmmaArrangementChoice {
  bool width_in_m;  // the phases of the width join M
  WgmmaSlabForm form;
  bool folds;  // neighbouring outputs of an axis without strides may join M, too
  bool phase_halos;
  bool folds_apart;
};

// Nothing where the engine cannot, or where another choice makes the same arrangement.
std::optional<WgmmaArrangement> arrange(const WgmmaProblem& problem, const WgmmaStrides& stride, bool channels_last,
                                        const WgmmaProduct& product, WgmmaArrangementChoice choice);

}  // namespace convt3d
