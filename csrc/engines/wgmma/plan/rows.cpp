#include "engines/wgmma/plan/rows.h"

#include <algorithm>
#include <climits>
#include <set>
#include <vector>

#include "core/integer.h"

namespace convt3d {
namespace {

constexpr int kSlabRows = 16;  // of each set

struct TapAt {
  int offset;
  int tap;
};

// Folded, the residue is the position's own; offsets count from the first of the two.
std::vector<TapAt> taps_of_residue(const AxisMap& map, int fold, int residue) {
  std::vector<TapAt> taps;
  for (int index = 0; index < map.phases; ++index) {
    const AxisPhase phase = axis_phase(map, index);
    if (fold == 1 && phase.residue != residue) continue;
    const int first = phase.first_offset + (fold == 1 ? 0 : residue);
    for (int j = 0; j < phase.tap_count; ++j) {
      taps.push_back({first + j * map.offset_step, phase.first_tap + j * map.tap_step});
    }
  }
  return taps;
}

// False where the table is too small for the taps.
bool fill_axis(const AxisMap& map, bool in_m, int fold, HaloAxis& axis) {
  axis = {};
  axis.fold = fold;
  axis.stride = map.dst_step * fold;
  axis.in_m = in_m ? axis.stride : 1;
  axis.outer = axis.stride / axis.in_m;
  axis.src_size = map.src_size;
  axis.dst_size = map.dst_size;
  axis.positions = static_cast<int32_t>(ceil_div(map.dst_size, axis.stride));
  for (int outer = 0; outer < axis.outer; ++outer) {
    HaloTaps& table = axis.taps[outer];
    std::set<int> offsets;
    for (int m = 0; m < axis.in_m; ++m) {
      for (const TapAt& at : taps_of_residue(map, fold, in_m ? m : outer)) offsets.insert(at.offset);
    }
    if (offsets.size() > kHaloMaxOffsets) return false;
    for (const int offset : offsets) {
      table.offset[table.count] = offset;
      for (int m = 0; m < kHaloMaxStride; ++m) {
        table.tap[table.count][m] = -1;
        if (m >= axis.in_m) continue;
        for (const TapAt& at : taps_of_residue(map, fold, in_m ? m : outer)) {
          if (at.offset == offset) table.tap[table.count][m] = at.tap;
        }
      }
      ++table.count;
    }
  }
  return true;
}

// Steps of u that offsets reach.
struct Reach {
  int low = INT_MAX;
  int high = INT_MIN;

  void add(const Reach& other) {
    low = std::min(low, other.low);
    high = std::max(high, other.high);
  }
};

Reach reach_of(const HaloAxis& axis, const HaloTaps& taps) {
  Reach reach;
  for (int j = 0; j < taps.count; ++j) reach.add({axis.step_of(taps.offset[j]), axis.step_of(taps.offset[j])});
  return reach;
}

}  // namespace

bool arrange_rows(const Problem& problem, bool channels_last, RowArrangement rows, HaloPlan& plan) {
  const auto [stack_width, sets, folds] = rows;
  const bool two_widths = problem.stride[2] == 2;
  if (!two_widths && !stack_width) return false;
  // With contiguous channels, pairs pay only where 8 of a slab's 16 would be empty.
  const int remainder = plan.out_channels % 16;
  plan.pair_rows = two_widths && stack_width && (!channels_last || (remainder > 0 && remainder <= 8));
  const bool possible[] = {
      true,                                                              // kNone
      !channels_last && !stack_width,                                    // kWidth
      !channels_last && plan.pair_rows && problem.stride[1] == 2,        // kHeight
      channels_last && !plan.pair_rows && plan.out_channels > kSlabRows  // kChannels
  };
  if (!possible[static_cast<int>(sets)]) return false;
  plan.sets = sets == Sets::kNone ? 1 : 2;
  plan.slab_channels = plan.pair_rows ? kSlabRows / 2 : sets == Sets::kChannels ? 2 * kSlabRows : kSlabRows;
  plan.channel_slabs = static_cast<int32_t>(ceil_div(plan.out_channels, plan.slab_channels));
  plan.slabs = plan.channel_slabs * (two_widths && stack_width && !plan.pair_rows ? 2 : 1);
  bool in_m[3] = {false, false, two_widths && stack_width};
  for (const int i : {1, 0}) {
    if (problem.stride[i] == 2 && plan.slabs * 2 <= 4 && !(i == 1 && sets == Sets::kHeight)) {
      in_m[i] = true;
      plan.slabs *= 2;
    }
  }
  int fold[3] = {1, 1, 1};
  for (const int i : {1, 0}) {
    if (!folds || problem.stride[i] != 1 || problem.kernel_size[i] == 1 || plan.slabs * 2 > 4) continue;
    in_m[i] = true;
    fold[i] = 2;
    plan.slabs *= 2;
  }
  if (folds && fold[0] * fold[1] == 1) return false;
  plan.m_tiles = static_cast<int32_t>(ceil_div(plan.slabs, 4));
  for (int i = 0; i < 3; ++i) {
    if (!fill_axis(forward_axis(problem, i), in_m[i], fold[i], plan.axis[i])) return false;
  }
  plan.phases = plan.axis[0].outer * plan.axis[1].outer * plan.axis[2].outer;
  if (sets == Sets::kWidth || sets == Sets::kHeight) plan.phases /= 2;
  plan.by_phases = make_divisor(plan.phases);
  plan.by_channel_slabs = make_divisor(plan.channel_slabs);
  plan.by_groups = make_divisor(plan.groups);
  return true;
}

bool set_halos(bool phase_halos, HaloPlan& plan) {
  plan.phase_halos = phase_halos;
  bool smaller = false;
  for (int i = 0; i < 3; ++i) {
    HaloAxis& axis = plan.axis[i];
    Reach all;
    for (int outer = 0; outer < axis.outer; ++outer) all.add(reach_of(axis, axis.taps[outer]));
    if (all.low > all.high) all = {0, 0};
    const bool one_unit = (i == 1 && plan.height_sets()) || (i == 2 && plan.width_sets());
    axis.low = all.low;
    axis.reach = phase_halos && !one_unit ? 0 : all.high - all.low;
    for (int outer = 0; outer < axis.outer; ++outer) {
      Reach own = reach_of(axis, axis.taps[outer]);
      if (own.low > own.high || !phase_halos || one_unit) own = all;
      axis.taps[outer].low = own.low;
      if (phase_halos) axis.reach = std::max(axis.reach, own.high - own.low);
    }
    smaller = smaller || axis.reach < all.high - all.low;
  }
  return smaller || !phase_halos;
}

}  // namespace convt3d
