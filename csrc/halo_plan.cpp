#include "halo_plan.h"

#include <algorithm>
#include <climits>
#include <functional>
#include <set>
#include <sstream>
#include <vector>

#include "halo_cost.h"
#include "halo_rows.h"
#include "integer.h"

namespace convt3d {
namespace {

constexpr int64_t kSharedBytes = 227 * 1024;
constexpr int64_t kSwizzleBytes = 1024;  // the swizzle's pattern repeats; panels are aligned to it

// Positions (height x width) up to which images may share a tile; it costs neighbours along the width.
constexpr int64_t kSmallPlane = 128;
// Channels of joined groups, in bytes, up to which joining may pay: beyond, it only multiplies by more zeros.
constexpr int64_t kMostJoinedBytes = 128;
constexpr int64_t kMostBoxExtent = 256;  // along one axis
// Of a packed weight: a thread of the packing, of which 31 bits count, writes at least 16 bytes.
constexpr int64_t kMostPackedBytes = int64_t{16} << 31;

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

int64_t segments_bytes(const HaloPlan& plan) {
  return int64_t{plan.staging.segments[0] + plan.staging.segments[1]} * kHaloStoredSegmentBytes;
}

// Of two stages more than there are: shifts are read ahead.
int64_t shifts_bytes(const HaloPlan& plan) {
  return round_up((plan.segment_first[plan.phases * plan.sets] + 2) * plan.stage_steps() * int64_t{2}, 128);
}

int64_t boxes_bytes(const HaloPlan& plan) {
  return plan.transposes() ? kHaloLoaderWarps * kHaloBoxBuffers * kHaloBoxBytes : 0;
}

int64_t sources_bytes(const HaloPlan& plan) {
  return round_up(int64_t{plan.source_tables()} * plan.source_entries() * kHaloSourceBytes, 128);
}

// What the search leaves open: the marks of the staging and the places of all parts.
HaloPlan complete(HaloPlan plan) {
  mark_batches(plan.staging);
  int64_t at = kHaloBarrierBytes;
  const auto take = [&](int64_t bytes, int64_t align) {
    const int64_t begin = at;
    at = round_up(at + bytes, align);
    return static_cast<int32_t>(begin);
  };
  HaloMemory& memory = plan.memory;
  memory.tiles = take(int64_t{plan.slots} * plan.slot_bytes(), kSwizzleBytes);
  memory.staging = take(int64_t{kHaloMultiplyWarps} * plan.staging.warp_bytes, kSwizzleBytes);
  memory.ring = take(int64_t{plan.ring} * kHaloStageBytes, 16);
  memory.columns = take(2 * int64_t{plan.table_columns()} * kHaloColumnBytes, 16);
  memory.segments = take(segments_bytes(plan), 16);
  memory.shifts = take(shifts_bytes(plan), 128);
  memory.boxes = take(boxes_bytes(plan), 128);
  memory.sources = take(sources_bytes(plan), 128);
  memory.bytes = static_cast<int32_t>(at);
  return plan;
}

using Visitor = std::function<void(const HaloPlan&)>;

// Boxes of 16 bytes' worth of channels, which begin at a multiple of 16 bytes along the width.
void shape_boxes(const Problem& problem, int element_bytes, HaloPlan& plan) {
  const int align = 16 / element_bytes;
  if (problem.input_size[2] % align != 0) return;
  int shift = 0;  // from a box's beginning to the tile's, at most
  for (int tile = 0; tile < std::min(plan.tiles[2], align); ++tile) {
    for (int outer = 0; outer < plan.axis[2].outer; ++outer) {
      shift = std::max(shift, (tile * plan.tile[2] + plan.axis[2].taps[outer].low) & (align - 1));
    }
  }
  const int64_t width = round_up(plan.halo[2] + shift, align);
  if (width > 2 * plan.tile[2]) return;               // mostly halo: threads are faster
  const int64_t most = kHaloBoxBytes / (width * 16);  // rows
  if (most == 0) return;
  plan.box_width = static_cast<int32_t>(width);
  plan.box_rows = static_cast<int32_t>(ceil_div(plan.halo[1], ceil_div(plan.halo[1], most)));
  plan.box_depths = static_cast<int32_t>(std::clamp<int64_t>(most / plan.halo[1], 1, plan.halo[0]));
  plan.row_boxes = static_cast<int32_t>(ceil_div(plan.halo[1], plan.box_rows));
  plan.depth_boxes = static_cast<int32_t>(ceil_div(plan.halo[0], plan.box_depths));
}

// Boxes of 16 bytes' worth of channels of a few images, each with its whole planes, height x width.
void shape_image_boxes(const Problem& problem, int element_bytes, HaloPlan& plan) {
  const int64_t plane = problem.input_size[1] * problem.input_size[2];
  if (plane * element_bytes % 16 != 0 || problem.input_size[2] * element_bytes % 4 != 0 || plane > kMostBoxExtent ||
      plan.tiles[1] * plan.tiles[2] > 1 || plan.folds() > 1) {
    return;
  }
  // All of a plane is in the tile.
  for (const int i : {1, 2}) {
    for (int outer = 0; outer < plan.axis[i].outer; ++outer) {
      const int low = plan.axis[i].taps[outer].low;
      if (low > 0 || low + plan.halo[i] < problem.input_size[i]) return;
    }
  }
  // The more images, the fewer of a warp's threads meet in a bank of shared memory.
  for (const int images : {8, 4}) {
    if (images * plane * plan.halo[0] * 16 > kHaloBoxBytes) continue;
    const int64_t lanes = 32 / images;  // of an image, in a warp
    plan.box_images = images;
    plan.box_words = static_cast<int32_t>(plan.plane_elements() * int64_t{element_bytes} / 4);
    plan.word_entries = static_cast<int32_t>(round_up(plan.box_words, kHaloWordsInFlight * lanes) + 32 - lanes);
    plan.zero_entries = static_cast<int32_t>(round_up(plan.zero_positions(), kHaloWordsInFlight * lanes));
    return;
  }
}

// Whether the tiles of every phase begin at a multiple of `align` elements in rows of positions: tiles themselves do,
// and a phase's offset may move its tiles along the depth, along the height and, by multiples of what the copy engine
// wants a box to begin at, along the width. Where rows cross widths, a move along the height must be one of whole rows,
// and one along the width would leave the input's rows.
bool rows_begin_tiles(int32_t row, const HaloPlan& plan) {
  constexpr int32_t kAlign = 8;  // elements of 2 bytes
  const auto all = [](const HaloAxis& axis, auto&& allowed) {
    return std::all_of(axis.taps, axis.taps + axis.outer, [&](const HaloTaps& taps) { return allowed(taps.low); });
  };
  if (!plan.rows_cross_widths()) return all(plan.axis[2], [](int32_t low) { return low % kAlign == 0; });
  return all(plan.axis[1], [&](int32_t low) { return int64_t{low} * plan.tile[2] % row == 0; }) &&
         all(plan.axis[2], [](int32_t low) { return low == 0; });
}

// Rows of neighbouring positions, as the input has them: a tile's width, or parts of whole rows of the input.
void shape_position_rows(const Problem& problem, int element_bytes, HaloPlan& plan) {
  if (element_bytes != 2 || plan.image_log > 0 || plan.folds() > 1 || !halo_multiplies_rows(plan.n, plan.sets)) return;
  if (plan.groups > 1 && plan.in_channels % kHaloRowChannels != 0) return;  // a box would reach into the next group
  for (const HaloAxis& axis : plan.axis) {
    if (axis.reach > 0) return;
  }
  const int64_t plane = problem.input_size[1] * problem.input_size[2];
  for (const int log : {6, 5, 4}) {
    const int row = 1 << log;
    if (plan.rows_cross_widths() ? plane % row != 0 || plan.tile[1] * plan.tile[2] % row != 0
                                 : plan.tile[2] != row || problem.input_size[2] % 8 != 0) {
      continue;
    }
    if (plan.n % row != 0 || plan.second_start % row != 0 || !rows_begin_tiles(row, plan)) continue;
    plan.row_log = static_cast<int8_t>(log);
    return;
  }
}

// Of a staging that begins and ends at a multiple of the swizzle's pattern.
int64_t staging_bytes(const HaloStaging& staging) {
  return round_up(int64_t{kHaloMultiplyWarps} * staging.warp_bytes, kSwizzleBytes);
}

// Of shared memory, what neither tiles nor staging nor the ring take.
int64_t beside_staging(const HaloPlan& plan) {
  return kHaloBarrierBytes + kSwizzleBytes + 2 * plan.table_columns() * kHaloColumnBytes + segments_bytes(plan) +
         shifts_bytes(plan) + boxes_bytes(plan) + sources_bytes(plan);
}

// Columns that are dropped may be read past a tile's end, but not past what follows the tiles.
bool reads_stay_inside(const HaloPlan& plan) {
  const int64_t shift =
      int64_t{(plan.axis[0].reach * plan.halo[1] + plan.axis[1].reach) * plan.halo[2] + plan.axis[2].reach}
      << plan.image_log;
  const int64_t positions = int64_t{plan.halo_positions()} << plan.image_log;
  const int64_t past = std::max<int64_t>(0, plan.second_start + plan.n + shift - positions);
  const int64_t position_bytes = plan.row_log > 0 ? plan.row_position_bytes() : plan.row_bytes;
  return past * position_bytes <= staging_bytes(plan.staging) + int64_t{plan.ring} * kHaloStageBytes;
}

// Slots, ring and, of what is left, larger batches than the staging has. False where shared memory is too small.
bool divide_memory(int element_bytes, HaloPlan& plan) {
  const int64_t slot = plan.slot_bytes();
  const int64_t staging = staging_bytes(plan.staging);
  const int64_t left = kSharedBytes - beside_staging(plan) - staging - slot;
  if (left < 3 * kHaloStageBytes) return false;
  const int64_t unit_stages = most_stages(plan);
  plan.resident_weights = unit_stages <= kHaloMaxRing && left - unit_stages * kHaloStageBytes >= slot;
  plan.ring = static_cast<int32_t>(plan.resident_weights                ? std::max<int64_t>(1, unit_stages)
                                   : left - 4 * kHaloStageBytes >= slot ? 4
                                                                        : 3);
  // What more than two whole tiles would take is better spent on staging.
  plan.slots = static_cast<int32_t>(std::min<int64_t>(plan.chunks() == 1 ? 2 : kHaloMaxSlots,
                                                      1 + (left - int64_t{plan.ring} * kHaloStageBytes) / slot));
  if (plan.chunks() > 1 && plan.slots == 1) return false;  // a chunk is handed back while the next is multiplied
  if (!plan.resident_weights) {
    plan.ring =
        static_cast<int32_t>(std::min<int64_t>(kHaloMaxRing, (left - (plan.slots - 1) * slot) / kHaloStageBytes));
  }
  const int64_t spare = left - (plan.slots - 1) * slot - int64_t{plan.ring} * kHaloStageBytes;
  widen_batches(staging + spare / kSwizzleBytes * kSwizzleBytes, element_bytes, plan);
  plan.packed_bytes = plan.groups * plan.m_tiles * plan.stages() * kHaloStageBytes;
  if (plan.packed_bytes > kMostPackedBytes) return false;
  plan.usable = true;
  return true;
}

// Chunks, slots and ring for a tile: the cheapest way.
void visit_tile(const Problem& problem, int element_bytes, bool width_contiguous, HaloPlan plan, const Visitor& visit) {
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
    if (plan.folds() * fold_bytes > kSharedBytes) continue;
    plan.fold_bytes = static_cast<int32_t>(fold_bytes);
    bool whole_tiles = false;  // two of them: nothing is gained by smaller chunks
    for (int chunks = 1; chunks <= plan.panels && !whole_tiles; ++chunks) {
      if (plan.panels % chunks != 0) continue;
      plan.chunk_panels = plan.panels / chunks;
      if (plan.row_log > 0 && plan.chunk_panels * kHaloRowChannels > kMostBoxExtent) continue;
      plan.tap_steps = plan.chunk_panels * plan.row_bytes / kHaloOperandBytes;
      if (!count_steps(plan)) continue;
      const int64_t least_beside = beside_staging(plan) + plan.slot_bytes() + 3 * kHaloStageBytes;
      if (least_beside + staging_bytes(least) > kSharedBytes) continue;
      // With larger batches more is stored in the background, with smaller ones there are more tiles and weights ahead.
      plan.staging = least;
      widen_batches((kSharedBytes - least_beside) / kSwizzleBytes * kSwizzleBytes, element_bytes, plan);
      const HaloStaging widest = plan.staging;
      for (const bool wide : {false, true}) {
        if (wide && widest.batch == least.batch) continue;
        plan.staging = wide ? widest : least;
        if (!divide_memory(element_bytes, plan) || !reads_stay_inside(plan)) continue;
        // In turns, one warpgroup may be a whole unit ahead: the ring, too, has to hold that much. Two terms pause
        // after every two stages, which the other warpgroup fills.
        const bool can_alternate =
            plan.terms == 1 && chunks == 1 && (plan.resident_weights || most_unit_stages(plan) < plan.ring);
        for (const bool alternate : {true, false}) {
          if (alternate && !can_alternate) continue;
          plan.alternate = alternate;
          plan.cost = expected_clocks(problem, element_bytes, !width_contiguous, plan);
          if (!best.usable || plan.cost < best.cost) best = plan;
        }
        whole_tiles = whole_tiles || (chunks == 1 && plan.slots >= 2);
      }
    }
  }
  if (best.usable) visit(best);
}

enum class Cut { kNone, kDepth, kHeight };

void visit_tiles(const Problem& problem, int element_bytes, bool width_contiguous, HaloPlan plan,
                 const Visitor& visit) {
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
    visit_tile(problem, element_bytes, width_contiguous, plan, visit);
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
void visit_shapes(const Problem& problem, HaloElement element, bool channels_last, HaloPlan plan,
                  const Visitor& visit) {
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
        visit_tiles(problem, element.bytes, !channels_last, plan, visit);
      }
    }
  }
}

void visit_candidates(const Problem& problem, HaloElement element, bool channels_last, const Visitor& visit) {
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
            if (set_halos(phase_halos, plan)) visit_shapes(problem, element, channels_last, plan, visit);
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

std::vector<HaloPlan> halo_candidates(const Problem& problem, HaloElement element, bool channels_last) {
  std::vector<HaloPlan> candidates;
  visit_candidates(problem, element, channels_last,
                   [&](const HaloPlan& candidate) { candidates.push_back(complete(candidate)); });
  return candidates;
}

HaloPlan plan_halo_forward(const Problem& problem, HaloElement element, bool channels_last) {
  HaloPlan best{};
  visit_candidates(problem, element, channels_last, [&](const HaloPlan& candidate) {
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
