#include "engines/wgmma/plan/plan.h"

#include <algorithm>
#include <climits>
#include <functional>
#include <set>
#include <sstream>
#include <vector>

#include "core/integer.h"
#include "engines/wgmma/plan/cost.h"
#include "engines/wgmma/plan/load_shapes.h"
#include "engines/wgmma/plan/memory.h"
#include "engines/wgmma/plan/rows.h"

namespace convt3d {
namespace {

// Positions (height x width) up to which images may share a tile; it costs neighbours along the width.
constexpr int64_t kSmallPlane = 128;
// Channels of joined groups, in bytes, up to which joining may pay: beyond, it only multiplies by more zeros.
constexpr int64_t kMostJoinedBytes = 128;

// Needs the chunks. False where the kernel's table is too small.
bool count_steps(HaloPlan& plan) {
  plan.segment_first[0] = 0;
  for (int phase = 0; phase < plan.phases; ++phase) {
    for (int set = 0; set < plan.sets; ++set) {
      const HaloPhase outer = halo_phase(plan, phase, set);
      const int segment = phase * plan.sets + set;
      const int taps = plan.axis[0].taps[outer.depth].count * plan.axis[1].taps[outer.height].count *
                       plan.axis[2].taps[outer.width].count;
      plan.segment_steps[segment] = taps * plan.tap_steps;
      plan.segment_first[segment + 1] =
          plan.segment_first[segment] + static_cast<int32_t>(ceil_div(taps * plan.tap_steps, plan.stage_steps()));
    }
  }
  return plan.segment_first[plan.phases * plan.sets] <= kHaloMaxTableStages;
}

// With the halo; even, so that neighbours along the width stay in pairs.
int padded_width(const HaloPlan& plan, int width) {
  const int halo = width + plan.axis[2].reach;
  return plan.image_log > 0 ? halo : static_cast<int>(round_up(halo, 2));
}

// Stages of one unit, at most, where all channels are in one chunk.
int64_t most_unit_stages(const HaloPlan& plan) {
  int64_t most = 0;
  for (int phase = 0; phase < plan.phases; ++phase) {
    most = std::max<int64_t>(most, plan.first_stage(phase + 1) - plan.first_stage(phase));
  }
  return most;
}

// The tile's extent along the height that fills `columns` columns, given the other extents.
int fitting_height(const HaloPlan& plan, int depth, int width, int64_t columns) {
  const int64_t pitch = padded_width(plan, width);
  const int64_t extra = plan.axis[1].reach;
  // ((depth - 1) * (height + extra) + height - 1) * pitch + width <= columns
  const int64_t rows = columns < width ? 0 : (columns - width) / pitch + 1;
  const int64_t height = (rows - (depth - 1) * extra) / depth;
  return static_cast<int>(std::min<int64_t>({height, plan.axis[1].positions, kHaloMaxTile[1]}));
}

constexpr int kSumRegisters = 128;  // of a thread

using Visitor = std::function<void(const HaloPlan&)>;

// Chunks, slots and ring for a tile: the cheapest way.
void visit_tile(const Problem& problem, int element_bytes, bool width_contiguous, const DeviceTraits& device,
                HaloPlan plan, const Visitor& visit) {
  const int64_t positions = static_cast<int64_t>(plan.halo[0]) * plan.halo[1] * plan.halo[2] << plan.image_log;
  const int64_t channel_bytes = round_up(static_cast<int64_t>(plan.in_channels) * element_bytes, kHaloOperandBytes);
  plan.box_width = plan.box_images = 0;
  plan.row_log = 0;
  if (width_contiguous) shape_position_rows(problem, element_bytes, plan);
  if (width_contiguous && plan.image_log == 0 && plan.row_log == 0) shape_boxes(problem, element_bytes, plan);
  if (width_contiguous && plan.image_log > 0) shape_image_boxes(problem, element_bytes, plan);
  if (!shape_staging(problem, element_bytes, !width_contiguous, plan)) return;
  const HaloStaging least = plan.staging;
  HaloPlan best{};
  for (const int row_bytes : {128, 64, 32}) {
    if (channel_bytes % row_bytes != 0 || (plan.row_log > 0 && row_bytes != kHaloOperandBytes)) continue;
    plan.row_bytes = row_bytes;
    plan.panels = static_cast<int32_t>(channel_bytes / row_bytes);
    const int64_t fold_bytes = round_up(positions * row_bytes, kSwizzleBytes);
    if (plan.folds() * fold_bytes > device.shared_bytes) continue;
    plan.fold_bytes = static_cast<int32_t>(fold_bytes);
    bool whole_tiles = false;  // two of them: nothing is gained by smaller chunks
    for (int chunks = 1; chunks <= plan.panels && !whole_tiles; ++chunks) {
      if (plan.panels % chunks != 0) continue;
      plan.chunk_panels = plan.panels / chunks;
      if (plan.row_log > 0 && plan.chunk_panels * kHaloRowChannels > kMostBoxExtent) continue;
      plan.tap_steps = plan.chunk_panels * plan.row_bytes / kHaloOperandBytes;
      if (!count_steps(plan)) continue;
      const int64_t least_beside = beside_staging(plan) + plan.slot_bytes() + 3 * kHaloStageBytes;
      if (least_beside + staging_bytes(least) > device.shared_bytes) continue;
      // With larger batches more is stored in the background, with smaller ones there are more tiles and weights ahead.
      plan.staging = least;
      widen_batches((device.shared_bytes - least_beside) / kSwizzleBytes * kSwizzleBytes, element_bytes, plan);
      const HaloStaging widest = plan.staging;
      for (const bool wide : {false, true}) {
        if (wide && widest.batch == least.batch) continue;
        plan.staging = wide ? widest : least;
        if (!divide_memory(element_bytes, device.shared_bytes, plan) || !reads_stay_inside(plan)) continue;
        // In turns, one warpgroup may be a whole unit ahead: the ring, too, has to hold that much. Two terms pause
        // after every two stages, which the other warpgroup fills.
        const bool can_alternate =
            plan.terms == 1 && chunks == 1 && (plan.resident_weights || most_unit_stages(plan) < plan.ring);
        for (const bool alternate : {true, false}) {
          if (alternate && !can_alternate) continue;
          plan.alternate = alternate;
          plan.cost = expected_clocks(problem, element_bytes, !width_contiguous, device, plan);
          if (!best.usable || plan.cost < best.cost) best = plan;
        }
        whole_tiles = whole_tiles || (chunks == 1 && plan.slots >= 2);
      }
    }
  }
  if (best.usable) visit(best);
}

enum class Cut { kNone, kDepth, kHeight };

void visit_tiles(const Problem& problem, int element_bytes, bool width_contiguous, const DeviceTraits& device,
                 HaloPlan plan, const Visitor& visit) {
  // `cut`: the axis along which the warpgroups have a half each; none: the first one's columns are full.
  const auto add = [&](int depth, int height, int width, Cut cut) {
    const int tile[3] = {depth, height, width};
    int64_t tiles = 1;
    for (int i = 0; i < 3; ++i) {
      plan.tile[i] = tile[i];
      plan.halo[i] = tile[i] + plan.axis[i].reach;
      if (i == 2) plan.halo[i] = padded_width(plan, tile[i]);
      plan.tiles[i] = static_cast<int32_t>(ceil_div(plan.axis[i].positions, tile[i]));
      tiles *= plan.tiles[i];
    }
    plan.image_tiles = ceil_div(plan.batch, int64_t{1} << plan.image_log);
    const int depths = cut == Cut::kDepth ? depth / 2 : depth;
    const int heights = cut == Cut::kHeight ? height / 2 : height;
    const int64_t extent = (int64_t{(depths - 1) * plan.halo[1] + heights - 1} * plan.halo[2] + width)
                           << plan.image_log;
    plan.second_start = cut == Cut::kDepth    ? (depths * plan.halo[1] * plan.halo[2]) << plan.image_log
                        : cut == Cut::kHeight ? (heights * plan.halo[2]) << plan.image_log
                                              : plan.n;
    plan.columns = static_cast<int32_t>(std::min<int64_t>(extent, plan.n));
    if (plan.batch > INT_MAX || tiles * plan.image_tiles * plan.groups > INT_MAX / plan.splits) return;
    for (int i = 0; i < 3; ++i) plan.by_tiles[i] = make_divisor(plan.tiles[i]);
    visit_tile(problem, element_bytes, width_contiguous, device, plan, visit);
  };
  const int64_t columns = plan.n >> plan.image_log;  // of one warpgroup, of one image
  // The widths of equal parts of the phase grid's width, of which each is the widest of so many parts.
  std::set<int> widths;
  for (int part = std::min(plan.axis[2].positions, kHaloMaxTile[2]); part >= 1; --part) {
    const int64_t parts = ceil_div(plan.axis[2].positions, part);
    if (ceil_div(plan.axis[2].positions, parts) != part) continue;
    const int width = static_cast<int>(round_up(part, plan.image_log > 0 ? 1 : 2));
    if ((width >= 8 || parts == 1) && width <= kHaloMaxTile[2]) widths.insert(width);
  }
  for (const int width : widths) {
    for (int depth = 1; depth <= 16 && depth < 2 * plan.axis[0].positions; depth *= 2) {
      const int whole = fitting_height(plan, depth, width, 2 * columns);
      if (whole >= 1) add(depth, whole, width, Cut::kNone);
      if (depth >= 2) {
        const int half = fitting_height(plan, depth / 2, width, columns);
        if (half >= 1) add(depth, half, width, Cut::kDepth);
      } else if (plan.height_sets() || (width_contiguous && plan.image_log > 0)) {
        const int half = fitting_height(plan, 1, width, columns);
        const int most = std::min<int>(2 * half, plan.axis[1].positions) & -2;
        if (most >= 2 && most <= kHaloMaxTile[1]) add(1, most, width, Cut::kHeight);
      }
    }
  }
}

// Tiles and shares of the work for rows that are arranged.
void visit_shapes(const Problem& problem, HaloElement element, bool channels_last, const DeviceTraits& device,
                  HaloPlan plan, const Visitor& visit) {
  // One phase of a contiguous width alone is stored only where images share a tile, together with the next unit's.
  const bool apart = !channels_last && problem.stride[2] == 2 && !plan.pair_rows && plan.sets == 1;
  for (const int n : {256, 192, 160, 128, 80, 64}) {
    if ((n == 160 && (plan.sets == 2 || plan.terms == 2)) || (n == 80 && plan.sets == 1)) continue;
    // Two terms need two stages' products beside the sums.
    if (n / 2 * (plan.sets + plan.terms - 1) > kSumRegisters) continue;
    plan.n = n;
    for (const int image_log : {0, 3}) {
      const int64_t plane = int64_t{plan.axis[1].positions} * plan.axis[2].positions;
      if (image_log > 0 && (problem.batch < 8 || plane > kSmallPlane || plan.pair_rows)) continue;
      if (!channels_last && (image_log > 0 ? !halo_stores_images(n, plan.sets) : apart)) continue;
      plan.phase_pairs = apart;
      plan.image_log = image_log;
      for (int splits = 1; splits <= plan.units(); ++splits) {
        if (plan.units() % splits != 0 || (apart && plan.units() / splits % 2 != 0)) continue;
        plan.splits = splits;
        plan.by_splits = make_divisor(splits);
        visit_tiles(problem, element.bytes, !channels_last, device, plan, visit);
      }
    }
  }
}

void visit_candidates(const Problem& problem, HaloElement element, bool channels_last, const DeviceTraits& device,
                      const Visitor& visit) {
  for (int i = 0; i < 3; ++i) {
    if (problem.stride[i] > kHaloMaxStride) return;
  }
  // Larger channels are left to the engine that is tested with them.
  if (problem.output_size(0) * problem.output_size(1) * problem.output_size(2) > UINT32_MAX) return;
  HaloPlan plan{};
  plan.terms = element.terms;
  plan.batch = problem.batch;
  for (int joined = 1; joined <= kHaloMaxJoined; joined *= 2) {
    const int64_t channels = joined * problem.in_channels_per_group();
    if (problem.groups % joined != 0 || (joined > 1 && channels * element.bytes > kMostJoinedBytes)) break;
    plan.joined = joined;
    plan.groups = problem.groups / joined;
    plan.in_channels = static_cast<int32_t>(channels);
    plan.out_channels = static_cast<int32_t>(joined * problem.out_channels_per_group());
    for (const bool stack_width : {true, false}) {
      for (const Sets sets : {Sets::kNone, Sets::kWidth, Sets::kHeight, Sets::kChannels}) {
        for (const bool folds : {false, true}) {
          if (!arrange_rows(problem, channels_last, {stack_width, sets, folds}, plan)) continue;
          for (const bool phase_halos : {false, true}) {
            if (set_halos(phase_halos, plan)) visit_shapes(problem, element, channels_last, device, plan, visit);
          }
        }
      }
    }
  }
}

}  // namespace

HaloGrid halo_grid(const HaloPlan& plan, int multiprocessors) {
  const int64_t blocks = std::min<int64_t>(plan.items(), multiprocessors);
  const int64_t classes = plan.splits * plan.groups;
  if (!plan.resident_weights || classes > std::min<int64_t>(blocks, kHaloMaxClasses)) return {blocks, 0};
  return {blocks / classes * classes, static_cast<uint32_t>(classes)};
}

// The ring of weights bounds how far the warpgroups can be apart.
uint32_t lag_clocks(const HaloPlan& plan) {
  constexpr int kProductClocks = 2;  // for 4 columns
  if (plan.alternate) return 0;
  return static_cast<uint32_t>(std::max(plan.ring - 2, 0) * plan.stage_products() * plan.n / 4 * kProductClocks);
}

int64_t most_stages(const HaloPlan& plan) {
  const int units = plan.units() / plan.splits;
  int64_t most = 0;
  for (int first = 0; first < plan.units(); first += units) {
    int64_t stages = 0;
    for (int unit = first; unit < first + units; ++unit) {
      const int phase = unit % plan.phases;
      stages += plan.first_stage(phase + 1) - plan.first_stage(phase);
    }
    most = std::max(most, stages);
  }
  return most;
}

std::vector<HaloPlan> halo_candidates(const Problem& problem, HaloElement element, bool channels_last,
                                      const DeviceTraits& device) {
  std::vector<HaloPlan> candidates;
  visit_candidates(problem, element, channels_last, device,
                   [&](const HaloPlan& candidate) { candidates.push_back(complete(candidate)); });
  return candidates;
}

HaloPlan plan_halo_forward(const Problem& problem, HaloElement element, bool channels_last,
                           const DeviceTraits& device) {
  HaloPlan best{};
  visit_candidates(problem, element, channels_last, device, [&](const HaloPlan& candidate) {
    if (!best.usable || candidate.cost < best.cost) best = candidate;
  });
  return best.usable ? complete(best) : best;
}

std::string to_string(const HaloPlan& plan) {
  std::ostringstream out;
  out << "halo usable=" << plan.usable << " terms=" << plan.terms << " joined=" << plan.joined << " n=" << plan.n
      << " sets=" << plan.sets << " slab_channels=" << plan.slab_channels << " pair_rows=" << plan.pair_rows
      << " m_tiles=" << plan.m_tiles << " slabs=" << plan.slabs << " phases=" << plan.phases
      << " folds=" << plan.axis[0].fold << 'x' << plan.axis[1].fold << " splits=" << plan.splits
      << " phase_halos=" << plan.phase_halos << " images=" << (1 << plan.image_log) << " tile=" << plan.tile[0] << 'x'
      << plan.tile[1] << 'x' << plan.tile[2] << " halo=" << plan.halo[0] << 'x' << plan.halo[1] << 'x' << plan.halo[2]
      << " second=" << plan.second_start << " columns=" << plan.columns << " panels=" << plan.panels << '/'
      << plan.chunk_panels << "x" << plan.row_bytes << " rows=" << (plan.row_log > 0 ? 1 << plan.row_log : 0)
      << " slots=" << plan.slots << " ring=" << plan.ring << " staging=" << to_string(plan.staging.way) << ' '
      << plan.staging.segments[0] << '+' << plan.staging.segments[1] << 'x' << plan.staging.columns
      << " batch=" << plan.staging.halves << 'x' << plan.staging.batch << " warp=" << plan.staging.warp_bytes
      << " resident=" << plan.resident_weights << " alternate=" << plan.alternate << " stages=" << plan.stages()
      << " shared=" << plan.memory.bytes << " packed=" << plan.packed_bytes << " items=" << plan.items()
      << " clocks=" << plan.cost;
  return out.str();
}

}  // namespace convt3d
