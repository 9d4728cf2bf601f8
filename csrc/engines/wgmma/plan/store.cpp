#include "engines/wgmma/plan/store.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/integer.h"
#include "device/swizzle.h"

namespace convt3d {
namespace {

constexpr int64_t kSegmentBytes = 2304;  // that a segment should not exceed
constexpr int64_t kMostSegmentBytes = 9216;
constexpr int64_t kRunBytes = 1152;    // of a channel, that a segment of a run should not exceed
constexpr int64_t kAlignedBytes = 16;  // that a run and its store have alike

// Columns of each of the equal even parts of a line: at most `most`, unless that makes them many times shorter.
int32_t equal_parts(int32_t width, int64_t most) {
  int32_t longer = width;
  for (int32_t parts = 1; parts <= width; ++parts) {
    const int32_t part = width / parts;
    if (width % parts != 0 || part % 2 != 0) continue;
    if (part <= most) return 3 * part < most && longer <= 2 * most ? longer : part;
    longer = part;
  }
  return longer;
}

// What follows from a segment's columns and from where the warpgroups begin.
void set_columns(const HaloTile& tile, int32_t columns, HaloStore& store) {
  store.columns = columns;
  store.line_segments = static_cast<int32_t>(ceil_div(tile.size[2], columns));
  store.by_columns = make_divisor(columns);
  store.by_line_segments = make_divisor(store.line_segments);
  for (int g = 0; g < 2; ++g) store.first_segment[g] = store.segment_of(tile, tile.at(store.start[g]));
}

// Boxes of rows of 32, 64 or 128 bytes along the width. Part of a line is no box unless the output ends there.
bool shape_line_boxes(const HaloTile& tile, int column_bytes, HaloStore& store) {
  const int64_t line_bytes = int64_t{tile.size[2]} * column_bytes;
  int64_t best = 0;
  for (const int64_t inner : {128, 64, 32}) {
    if (inner % (2 * column_bytes) != 0 || (line_bytes % inner != 0 && tile.count[2] > 1)) continue;
    const auto cost = [&](int64_t bytes) { return ceil_div(line_bytes, bytes) * (bytes + 16); };
    if (best == 0 || cost(inner) < cost(best)) best = inner;
  }
  if (best == 0) return false;
  store.pitch = static_cast<int32_t>(best);
  store.swizzle = swizzle_mask(store.pitch);
  set_columns(tile, static_cast<int32_t>(best / column_bytes), store);
  return true;
}

// Bytes from a channel of a run to the next. An odd multiple of 16 spreads eight channels, which are staged at a time,
// each with its own alignment, over the banks of shared memory.
int32_t run_pitch(int64_t bytes) { return static_cast<int32_t>(round_up(bytes + kAlignedBytes, 32) + kAlignedBytes); }

// Whether `burst` lines can be a burst: no strip of columns has parts of three.
bool run_burst_fits(const HaloTile& tile, const HaloStore& store, int element_bytes, int32_t burst) {
  if (int64_t{burst} * store.segment_bytes > int64_t{element_bytes} << kHaloRunOffsetBits) return false;
  if (store.line_segments > 1) return burst == 1 && store.columns >= store.strip;
  const auto fills_step = [&](int32_t lines) { return (lines - 1) * tile.halo[2] + tile.size[2] >= store.strip; };
  if (tile.size[0] == 1) return burst >= tile.size[1] || fills_step(burst);
  bool fits = fills_step(std::min(burst, tile.size[1]));
  for (const int32_t segment : store.first_segment) {
    // The last lines of a warpgroup's first depth; those of the others are like the first warpgroup's.
    const int32_t first = segment / store.line_segments;
    const int32_t rest = (tile.size[1] - first % tile.size[1]) % burst;
    fits = fits && (rest == 0 || fills_step(rest));
  }
  return fits;
}

void set_run_burst(int32_t slab_channels, int32_t burst, HaloStore& store) {
  store.burst = burst;
  store.by_burst = make_divisor(burst);
  store.pitch = run_pitch(int64_t{burst} * store.segment_bytes);
  store.warp_bytes = slab_channels * store.pitch;
}

// The smallest bursts; false where there are none. `element_bytes`: of the output, whose width is contiguous.
bool shape_runs(const HaloArrangement& arrangement, const HaloTile& tile, int element_bytes, HaloStore& store) {
  const bool both_heights = arrangement.height_sets();
  const int64_t output_line = int64_t{arrangement.axis[2].dst_size} * element_bytes;
  const int64_t output_step = both_heights ? output_line : output_line * arrangement.axis[1].stride;
  store.lines = {both_heights ? 2 : 1};
  set_columns(tile, equal_parts(tile.size[2], std::max<int64_t>(2, kRunBytes / store.lines / store.column_bytes)),
              store);
  const bool whole = tile.count[2] == 1 && store.columns == tile.size[2];
  const int64_t line_bytes = whole ? output_line : int64_t{store.columns} * store.column_bytes;
  store.joined_lines = whole && output_step == line_bytes;
  store.line_step =
      static_cast<int32_t>(line_bytes + ((output_step - line_bytes) % kAlignedBytes + kAlignedBytes) % kAlignedBytes);
  store.segment_bytes = store.lines * store.line_step;
  store.swizzle = 0;
  store.halves = 1;
  if (both_heights && !store.joined_lines) return false;
  for (int32_t burst = 1; burst <= tile.size[1]; ++burst) {
    if (!run_burst_fits(tile, store, element_bytes, burst)) continue;
    set_run_burst(arrangement.slab_channels(), burst, store);
    return true;
  }
  return false;
}

int32_t burst_segments(const HaloStore& store) {
  int32_t most = 1;
  for (int g = 0; g < 2; ++g) most = std::max(most, store.segments[g] - (store.part[g] >= 0 ? 1 : 0));
  return most;
}

bool has_part(const HaloStore& store) { return store.part[0] >= 0 || store.part[1] >= 0; }

// Lines that can be one box wherever the warpgroups' outputs are cut, and at each depth's end: as many as divide the
// lines that a warpgroup has in a depth.
int32_t most_box_lines(const HaloTile& tile, const HaloStore& store) {
  if (!store.boxes() || has_part(store)) return 1;
  int32_t common = 0;
  for (int g = 0; g < 2; ++g) {
    const int32_t first = store.first_segment[g];
    if (first % store.line_segments != 0 || store.segments[g] % store.line_segments != 0) return 1;
    const int32_t end = (first + store.segments[g]) / store.line_segments;
    for (int32_t line = first / store.line_segments; line < end;) {
      const int32_t next = std::min(end, (line / tile.size[1] + 1) * tile.size[1]);
      common = std::gcd(common, next - line);
      line = next;
    }
  }
  return std::max(common, 1);
}

// From a box of so many lines to the next. The swizzle's pattern repeats after 8 rows of it; boxes begin at a multiple
// of 128 bytes.
int64_t aligned_box_bytes(const HaloStore& store, int32_t lines) {
  return round_up(int64_t{lines} * store.segment_bytes, std::max(128, 8 * swizzled_row_bytes(store.swizzle)));
}

void set_burst(const HaloTile& tile, int32_t burst, HaloStore& store) {
  const int32_t most = burst_segments(store);
  store.halves = burst >= most ? 1 : 2;
  store.burst = std::min(burst, most);
  store.by_burst = make_divisor(store.burst);
  store.by_held = make_divisor(store.halves * store.burst);
  store.box_lines = most_box_lines(tile, store);
  if (store.halves == 2) {
    const bool whole_lines = store.burst % store.line_segments == 0;
    store.box_lines = whole_lines ? std::gcd(store.box_lines, store.burst / store.line_segments) : 1;
  }
  store.by_box_lines = make_divisor(store.box_lines);
  store.box_bytes = static_cast<int32_t>(aligned_box_bytes(store, store.box_lines));
  store.warp_bytes = (store.halves * store.burst / store.box_lines + (has_part(store) ? 1 : 0)) * store.box_bytes;
}

// A burst but the first and the last has at least `strip` columns: no more than one begins, and no more than one ends,
// within a strip of columns.
void mark_bursts(const HaloTile& tile, int g, HaloStore& store) {
  const int32_t first = store.first_segment[g];
  const int32_t strips = static_cast<int32_t>(ceil_div(store.extent, store.strip));
  store.end[g] = store.open[g] = 0;
  // The bursts of a strip's first and last output; -1: it has none.
  std::array<int32_t, 32> low;
  std::array<int32_t, 32> high;
  for (int32_t i = 0; i < strips; ++i) {
    low[i] = high[i] = -1;
    for (int32_t column = i * store.strip; column < std::min((i + 1) * store.strip, store.extent); ++column) {
      const HaloPosition position = tile.at(store.start[g] + column);
      const int32_t segment = store.segment_of(tile, position) - first;
      if (!tile.is_output(position) || segment == store.part[g]) continue;
      high[i] = store.burst_of(tile, g, segment);
      if (low[i] < 0) low[i] = high[i];
    }
  }
  int32_t next = 0;  // the burst of the outputs that follow
  for (int32_t i = 0; i < strips; ++i) {
    if (low[i] < high[i]) store.open[g] |= 1u << i;
    next = std::max(next, high[i]);
  }
  for (int32_t i = strips - 1; i >= 0; --i) {
    if (high[i] < 0) continue;
    if (low[i] < next) store.end[g] |= 1u << i;
    next = low[i];
  }
}

// What a warp keeps of a pass: two fragments of every pair.
int32_t kept_bytes(const HaloTile& tile, int element_bytes, const HaloStore& store) {
  int32_t most = 0;
  for (int g = 0; g < 2; ++g) {
    int32_t pairs = 0;
    for (int32_t i = 0; i < store.extent; ++i) pairs += store.pair_positions(tile, g, i) > 0 ? 1 : 0;
    most = std::max(most, pairs);
  }
  return most * kHaloKeptElements * element_bytes;
}

}  // namespace

const char* to_string(HaloStoreWay way) {
  switch (way) {
    case HaloStoreWay::kBoxes:
      return "boxes";
    case HaloStoreWay::kBoxesByThreads:
      return "threads_for_boxes";
    case HaloStoreWay::kThreads:
      return "threads";
    case HaloStoreWay::kRuns:
      return "runs";
    case HaloStoreWay::kRegisters:
      return "registers";
  }
  return "";
}

std::optional<HaloStore> make_store(const Problem& problem, int element_bytes, bool channels_last,
                                    const HaloProduct& product, const HaloArrangement& arrangement,
                                    const HaloTile& tile) {
  HaloStore store{};
  store.channels_contiguous = channels_last;
  store.start[1] = tile.second_start >> tile.image_log;
  store.extent = tile.columns >> tile.image_log;
  store.strip = kHaloStripColumns >> tile.image_log;
  store.lines = {1};
  const int32_t slab_channels = arrangement.slab_channels();
  const int phases = arrangement.both_widths() ? 2 : 1;
  // A box of a group's last channels would reach into the next group; a residue without positions has no box.
  bool boxes = product.groups == 1 || product.out_channels % slab_channels == 0;
  for (const HaloAxis& axis : arrangement.axis) boxes = boxes && axis.dst_size >= axis.stride;
  if (channels_last) {
    store.pitch = slab_channels * element_bytes;
    store.swizzle = swizzle_mask(store.pitch);
    store.column_bytes = (phases * store.pitch) << tile.image_log;
    // Neighbouring columns are images where those share a tile.
    set_columns(tile, tile.image_log > 0 ? tile.size[2] : equal_parts(tile.size[2], kSegmentBytes / store.column_bytes),
                store);
    boxes = boxes && problem.out_channels * element_bytes % 16 == 0;
    store.way = boxes ? HaloStoreWay::kBoxes : HaloStoreWay::kThreads;
  } else if (tile.image_log > 0) {
    store.way = HaloStoreWay::kRegisters;
    store.phase_pairs = phases == 1 && arrangement.axis[2].outer == 2;
    set_columns(tile, tile.size[2], store);
    for (int g = 0; g < 2; ++g) store.part[g] = -1;
    set_burst(tile, 1, store);
    if (store.phase_pairs) store.warp_bytes = kept_bytes(tile, element_bytes, store);
    return store;
  } else {
    store.column_bytes = phases * element_bytes;
    boxes = boxes && int64_t{arrangement.axis[2].dst_size} * element_bytes % 16 == 0 &&
            shape_line_boxes(tile, store.column_bytes, store);
    store.way = boxes ? HaloStoreWay::kBoxes : HaloStoreWay::kRuns;
    if (arrangement.height_sets() && boxes) return std::nullopt;  // lines of boxes gain nothing by it
  }
  if (store.runs()) {
    if (!shape_runs(arrangement, tile, element_bytes, store)) return std::nullopt;
  } else {
    const int64_t segment_bytes =
        channels_last ? int64_t{store.columns} * store.column_bytes : int64_t{slab_channels} * store.pitch;
    if (segment_bytes > kMostSegmentBytes) return std::nullopt;
    store.segment_bytes = static_cast<int32_t>(segment_bytes);
  }
  for (int g = 0; g < 2; ++g) {
    const HaloPosition last = tile.at(store.start[g] + store.extent - 1);
    store.segments[g] = store.segment_of(tile, last) - store.first_segment[g] + (tile.is_output(last) ? 1 : 0);
    if (store.segments[g] > kHaloMaxStoredSegments) return std::nullopt;
    store.part[g] = -1;
  }
  // Where the second warpgroup goes on with what the first one begins.
  const HaloPosition cut = tile.at(store.start[1]);
  const bool cuts = store.start[1] == store.extent && tile.is_output(cut);
  if (boxes && cuts && cut.w % store.columns != 0) {
    store.part[0] = store.segments[0] - 1;
    store.part[1] = 0;
  }
  if (store.runs()) {
    // Both phases of the height are one run only of whole lines.
    if (cuts && cut.w != 0 && arrangement.height_sets()) return std::nullopt;
  } else {
    // Outputs of a whole segment, and of the shortest, the last one of a line.
    const int32_t whole = std::min(store.columns, tile.size[2]);
    const int32_t shortest = tile.size[2] - (store.line_segments - 1) * store.columns;
    set_burst(tile, static_cast<int32_t>(1 + ceil_div(std::max(0, store.strip - shortest), whole)), store);
  }
  return store;
}

HaloStore widened(const HaloTile& tile, HaloStore store, int64_t bytes, int element_bytes, int32_t slab_channels) {
  if (!store.runs()) {
    const int32_t most = burst_segments(store);
    if (store.halves == 1) return store;
    HaloStore wider = store;
    set_burst(tile, most, wider);
    if (int64_t{kHaloConsumerWarps} * wider.warp_bytes > bytes) {
      // Of boxes of one line each, which take the most.
      const int64_t burst = (bytes / kHaloConsumerWarps / aligned_box_bytes(store, 1) - (has_part(store) ? 1 : 0)) / 2;
      if (burst <= store.burst) return store;
      set_burst(tile, static_cast<int32_t>(burst), wider);
    }
    return wider;
  }
  const int32_t lines = std::min(tile.size[1], std::max(store.segments[0], store.segments[1]));
  for (int32_t parts = 1; store.line_segments == 1 && parts <= lines; ++parts) {
    const int32_t burst = static_cast<int32_t>(ceil_div(lines, parts));
    if (burst <= store.burst) break;
    const int64_t pitch = run_pitch(int64_t{burst} * store.segment_bytes);
    if (kHaloConsumerWarps * slab_channels * pitch > bytes || !run_burst_fits(tile, store, element_bytes, burst))
      continue;
    set_run_burst(slab_channels, burst, store);
    break;
  }
  return store;
}

int32_t bursts(const HaloTile& tile, const HaloStore& store) {
  if (store.runs()) {
    const int g = store.segments[1] > store.segments[0] ? 1 : 0;
    return store.burst_of(tile, g, store.segments[g] - 1) + 1;
  }
  return static_cast<int32_t>(ceil_div(burst_segments(store), store.burst));
}

HaloStore marked(const HaloTile& tile, HaloStore store) {
  if (store.registers()) return store;
  for (int g = 0; g < 2; ++g) mark_bursts(tile, g, store);
  return store;
}

}  // namespace convt3d
