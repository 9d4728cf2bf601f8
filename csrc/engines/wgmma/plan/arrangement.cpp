#include "engines/wgmma/plan/arrangement.h"

#include <algorithm>
#include <climits>
#include <set>
#include <vector>

#include "core/integer.h"

namespace convt3d {
namespace {

struct TapAt {
  int offset;
  int tap;
};

// Of neighbours that are joined, the residue is the position's own; offsets count from the first of the two.
std::vector<TapAt> taps_of_residue(const AxisMap& map, int joined, int residue) {
  std::vector<TapAt> taps;
  for (int index = 0; index < map.phases; ++index) {
    const AxisPhase phase = axis_phase(map, index);
    if (joined == 1 && phase.residue != residue) continue;
    const int first = phase.first_offset + (joined == 1 ? 0 : residue);
    for (int j = 0; j < phase.tap_count; ++j) {
      taps.push_back({first + j * map.offset_step, phase.first_tap + j * map.tap_step});
    }
  }
  return taps;
}

// A table of taps for each of two folds; none for one that no tap reads, unless the other has none, too.
void part_folds(WgmmaAxis& axis) {
  const WgmmaTaps all = axis.taps[0];
  axis.taps[0] = {};
  int parts = 0;
  for (int fold = 0; fold < axis.fold; ++fold) {
    WgmmaTaps part{};
    part.fold = fold;
    for (int j = 0; j < all.count; ++j) {
      if (axis.fold_of(all.offset[j]) != fold) continue;
      part.offset[part.count] = all.offset[j];
      std::copy(all.tap[j], all.tap[j] + kWgmmaMaxStride, part.tap[part.count++]);
    }
    if (part.count > 0) axis.taps[parts++] = part;
  }
  axis.outer = {std::max(parts, 1)};
}

// `joined`: neighbouring outputs that are residues. False where the table is too small for the taps.
bool fill_axis(const AxisMap& map, bool in_m, int joined, WgmmaAxis& axis) {
  axis = {};
  axis.fold = {map.src_step * joined};
  axis.stride = {map.dst_step * joined};
  axis.in_m = in_m ? axis.stride : OneOrTwo{1};
  axis.outer = in_m ? OneOrTwo{1} : axis.stride;
  axis.src_size = map.src_size;
  axis.dst_size = map.dst_size;
  axis.positions = static_cast<int32_t>(ceil_div(map.dst_size, axis.stride));
  for (int outer = 0; outer < axis.outer; ++outer) {
    WgmmaTaps& table = axis.taps[outer];
    std::set<int> offsets;
    for (int m = 0; m < axis.in_m; ++m) {
      for (const TapAt& at : taps_of_residue(map, joined, in_m ? m : outer)) offsets.insert(at.offset);
    }
    if (offsets.size() > kWgmmaMaxOffsets) return false;
    for (const int offset : offsets) {
      table.offset[table.count] = offset;
      for (int m = 0; m < kWgmmaMaxStride; ++m) {
        table.tap[table.count][m] = -1;
        if (m >= axis.in_m) continue;
        for (const TapAt& at : taps_of_residue(map, joined, in_m ? m : outer)) {
          if (at.offset == offset) table.tap[table.count][m] = at.tap;
        }
      }
      ++table.count;
    }
  }
  return true;
}

// Shifts of u that offsets reach.
struct Reach {
  int low = INT_MAX;
  int high = INT_MIN;

  void add(const Reach& other) {
    low = std::min(low, other.low);
    high = std::max(high, other.high);
  }
};

Reach reach_of(const WgmmaAxis& axis, const WgmmaTaps& taps) {
  Reach reach;
  for (int j = 0; j < taps.count; ++j) reach.add({axis.shift_of(taps.offset[j]), axis.shift_of(taps.offset[j])});
  return reach;
}

bool is_possible(const WgmmaStrides& stride, bool channels_last, const WgmmaProduct& product,
                 WgmmaArrangementChoice choice) {
  // Folds that are apart have their own halos; others are those of inputs with steps.
  if (choice.folds_apart && (choice.folds || !choice.phase_halos)) return false;
  const bool two_widths = stride[2].is_two();
  if (!two_widths && !choice.width_in_m) return false;
  // With contiguous channels, pairs pay only where 8 of a slab's 16 would be empty.
  const int remainder = product.out_channels % kWgmmaSlabRows;
  const bool pairs =
      two_widths && choice.width_in_m && (!channels_last || (remainder > 0 && remainder <= kWgmmaSlabRows / 2));
  switch (choice.form) {
    case WgmmaSlabForm::kChannels:
      return !pairs;
    case WgmmaSlabForm::kWidthPairs:
      return pairs;
    case WgmmaSlabForm::kWidthPairsHeightSets:
      return !channels_last && pairs && stride[1].is_two();
    case WgmmaSlabForm::kWidthSets:
      return !channels_last && !choice.width_in_m;
    case WgmmaSlabForm::kChannelSets:
      return channels_last && !pairs && product.out_channels > kWgmmaSlabRows;
  }
  return false;
}

// The halos that a tile has for all phases or, of phase halos, for those of one pass. False where these are the same.
bool set_halos(bool phase_halos, WgmmaArrangement& arrangement) {
  arrangement.phase_halos = phase_halos;
  bool smaller = false;
  for (int i = 0; i < 3; ++i) {
    WgmmaAxis& axis = arrangement.axis[i];
    Reach all;
    for (int outer = 0; outer < axis.outer; ++outer) all.add(reach_of(axis, axis.taps[outer]));
    if (all.low > all.high) all = {0, 0};
    const bool one_pass = (i == 1 && arrangement.height_sets()) || (i == 2 && arrangement.width_sets());
    axis.low = all.low;
    axis.reach = phase_halos && !one_pass ? 0 : all.high - all.low;
    for (int outer = 0; outer < axis.outer; ++outer) {
      Reach own = reach_of(axis, axis.taps[outer]);
      if (own.low > own.high || !phase_halos || one_pass) own = all;
      axis.taps[outer].low = own.low;
      if (phase_halos) axis.reach = std::max(axis.reach, own.high - own.low);
    }
    smaller = smaller || axis.reach < all.high - all.low;
  }
  return smaller || !phase_halos || arrangement.folds_apart;
}

}  // namespace

std::optional<WgmmaStrides> wgmma_strides(const WgmmaProblem& problem) {
  WgmmaStrides strides;
  for (size_t i = 0; i < 3; ++i) {
    const AxisMap& map = problem.axis[i];
    if (map.dst_step > kWgmmaMaxStride || map.src_step > kWgmmaMaxStride) return std::nullopt;
    strides[i] = {map.dst_step};
  }
  return strides;
}

std::optional<WgmmaArrangement> arrange(const WgmmaProblem& problem, const WgmmaStrides& stride, bool channels_last,
                                        const WgmmaProduct& product, WgmmaArrangementChoice choice) {
  if (!is_possible(stride, channels_last, product, choice)) return std::nullopt;
  WgmmaArrangement result{};
  result.form = choice.form;
  result.channel_slabs = static_cast<int32_t>(ceil_div(product.out_channels, result.slab_channels()));
  bool in_m[3] = {false, false, stride[2].is_two() && choice.width_in_m};
  result.slabs = result.channel_slabs * (in_m[2] && !result.width_pairs() ? 2 : 1);
  for (const int i : {1, 0}) {
    if (stride[i].is_two() && result.slabs * 2 <= kWgmmaTileSlabs && !(i == 1 && result.height_sets())) {
      in_m[i] = true;
      result.slabs *= 2;
    }
  }
  int joined[3] = {1, 1, 1};
  for (const int i : {1, 0}) {
    const AxisMap& map = problem.axis[static_cast<size_t>(i)];
    const bool possible = choice.folds && map.dst_step == 1 && map.src_step == 1 && map.taps > 1;
    if (!possible || result.slabs * 2 > kWgmmaTileSlabs) continue;
    in_m[i] = true;
    joined[i] = 2;
    result.slabs *= 2;
  }
  if (choice.folds && joined[0] * joined[1] == 1) return std::nullopt;
  result.m_tiles = static_cast<int32_t>(ceil_div(result.slabs, kWgmmaTileSlabs));
  for (int i = 0; i < 3; ++i) {
    if (!fill_axis(problem.axis[static_cast<size_t>(i)], in_m[i], joined[i], result.axis[i])) return std::nullopt;
  }
  result.folds_apart = choice.folds_apart;
  if (choice.folds_apart) {
    const bool strided =
        std::any_of(problem.axis.begin(), problem.axis.end(), [](const AxisMap& map) { return map.dst_step > 1; });
    if (strided || !result.folded()) return std::nullopt;
    for (WgmmaAxis& axis : result.axis) part_folds(axis);
  }
  result.phases = result.axis[0].outer * result.axis[1].outer * result.axis[2].outer;
  if (result.width_sets() || result.height_sets()) result.phases /= 2;
  result.by_phases = make_divisor(result.phases);
  result.by_channel_slabs = make_divisor(result.channel_slabs);
  if (!set_halos(choice.phase_halos, result)) return std::nullopt;
  return result;
}

}  // namespace convt3d
