#include "engines/wgmma/plan/store.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/integer.h"
#include "device/swizzle.h"
#include "engines/wgmma/plan/store_shape.h"

namespace convt3d {
namespace {

using Rows = WgmmaStoreShape::Rows;
using Kept = WgmmaStoreShape::Kept;

// Of the warpgroup that has more of them; `of`: WgmmaSegments, or a store.
template <typename Segments>
int32_t burst_segments(const Segments& of) {
  int32_t most = 1;
  for (int g = 0; g < 2; ++g) most = std::max(most, of.segments[g] - (of.part[g] >= 0 ? 1 : 0));
  return most;
}

// From a box of so many lines to the next. The swizzle's pattern repeats after 8 rows of it; boxes begin at a multiple
// of 128 bytes.
int64_t aligned_box_bytes(const WgmmaSegments& segments, int32_t lines) {
  return round_up(int64_t{lines} * segments.segment_bytes, std::max(128, 8 * swizzled_row_bytes(segments.swizzle)));
}

struct RowBursts {
  WgmmaBursts bursts;
  WgmmaBoxes boxes;
};

RowBursts bursts_of_rows(const WgmmaSegments& segments, Rows rows, int32_t burst) {
  const int32_t most = burst_segments(segments);
  WgmmaBursts bursts;
  bursts.pitch = rows.pitch;
  bursts.halves = burst >= most ? 1 : 2;
  bursts.burst = std::min(burst, most);
  WgmmaBoxes boxes;
  boxes.lines = rows.box_lines;
  if (bursts.halves == 2) {
    const bool whole_lines = bursts.burst % segments.line_segments == 0;
    boxes.lines = whole_lines ? std::gcd(boxes.lines, bursts.burst / segments.line_segments) : 1;
  }
  boxes.bytes = static_cast<int32_t>(aligned_box_bytes(segments, boxes.lines));
  bursts.warp_bytes = (bursts.halves * bursts.burst / boxes.lines + (segments.has_part() ? 1 : 0)) * boxes.bytes;
  return {bursts, boxes};
}

RowBursts widest_of_rows(const WgmmaSegments& segments, Rows rows, int32_t least_burst, int64_t warp_bytes) {
  const int32_t most = burst_segments(segments);
  const RowBursts all = bursts_of_rows(segments, rows, most);
  if (least_burst >= most || all.bursts.warp_bytes <= warp_bytes) return all;
  // Of boxes of one line each, which take the most.
  const int64_t burst = (warp_bytes / aligned_box_bytes(segments, 1) - (segments.has_part() ? 1 : 0)) / 2;
  return bursts_of_rows(segments, rows, static_cast<int32_t>(std::max<int64_t>(burst, least_burst)));
}

WgmmaStore store_of_runs(const WgmmaArrangement& arrangement, const WgmmaSegments& segments, WgmmaRuns runs,
                         int32_t burst) {
  const int32_t pitch = run_pitch(int64_t{burst} * segments.segment_bytes);
  return WgmmaStore::of_runs(segments, {pitch, burst, 1, arrangement.slab_channels() * pitch}, runs);
}

WgmmaStore widest_of_runs(int element_bytes, const WgmmaArrangement& arrangement, const WgmmaTile& tile,
                          const WgmmaSegments& segments, WgmmaRuns runs, int32_t least_burst, int64_t warp_bytes) {
  const int32_t lines = std::min(tile.size[1], std::max(segments.segments[0], segments.segments[1]));
  for (int32_t parts = 1; segments.line_segments == 1 && parts <= lines; ++parts) {
    const int32_t burst = static_cast<int32_t>(ceil_div(lines, parts));
    if (burst <= least_burst) break;
    const int64_t pitch = run_pitch(int64_t{burst} * segments.segment_bytes);
    if (arrangement.slab_channels() * pitch > warp_bytes || !run_burst_fits(tile, segments, element_bytes, burst)) {
      continue;
    }
    return store_of_runs(arrangement, segments, runs, burst);
  }
  return store_of_runs(arrangement, segments, runs, least_burst);
}

// A burst but the first and the last has at least `strip` columns: no more than one begins, and no more than one ends,
// within a strip of columns.
void mark_bursts(const WgmmaTile& tile, const WgmmaStore& store, int g, WgmmaMarks& marks) {
  const int32_t first = store.first_segment[g];
  const int32_t strips = static_cast<int32_t>(ceil_div(store.extent, store.strip));
  // The bursts of a strip's first and last output; -1: it has none.
  std::array<int32_t, 32> low;
  std::array<int32_t, 32> high;
  for (int32_t i = 0; i < strips; ++i) {
    low[i] = high[i] = -1;
    for (int32_t column = i * store.strip; column < std::min((i + 1) * store.strip, store.extent); ++column) {
      const WgmmaPosition position = tile.at(store.start[g] + column);
      const int32_t segment = store.segment_of(tile, position) - first;
      if (!tile.is_output(position) || segment == store.part[g]) continue;
      high[i] = store.burst_of(tile, g, segment);
      if (low[i] < 0) low[i] = high[i];
    }
  }
  int32_t next = 0;  // the burst of the outputs that follow
  for (int32_t i = 0; i < strips; ++i) {
    if (low[i] < high[i]) marks.open[g] |= 1u << i;
    next = std::max(next, high[i]);
  }
  for (int32_t i = strips - 1; i >= 0; --i) {
    if (high[i] < 0) continue;
    if (low[i] < next) marks.end[g] |= 1u << i;
    next = low[i];
  }
}

}  // namespace

const char* to_string(WgmmaStoreWay way) {
  switch (way) {
    case WgmmaStoreWay::kBoxes:
      return "boxes";
    case WgmmaStoreWay::kBoxesByThreads:
      return "threads_for_boxes";
    case WgmmaStoreWay::kThreads:
      return "threads";
    case WgmmaStoreWay::kRuns:
      return "runs";
    case WgmmaStoreWay::kRegisters:
      return "registers";
  }
  return "";
}

WgmmaStore::WgmmaStore(const WgmmaSegments& of, const WgmmaBursts& bursts, WgmmaStoreWay way, WgmmaRuns runs,
                       WgmmaBoxes boxes)
    : way_(way),
      channels_contiguous(of.channels_contiguous),
      phase_pairs(of.phase_pairs),
      pitch(bursts.pitch),
      swizzle(of.swizzle),
      column_bytes(of.column_bytes),
      columns(of.columns),
      line_segments(of.line_segments),
      runs_(runs),
      segment_bytes(of.segment_bytes),
      box_lines_(boxes.lines),
      box_bytes_(boxes.bytes),
      burst(bursts.burst),
      halves(bursts.halves),
      warp_bytes(bursts.warp_bytes),
      start{of.start[0], of.start[1]},
      extent(of.extent),
      strip(of.strip),
      segments{of.segments[0], of.segments[1]},
      part{of.part[0], of.part[1]},
      marks{},
      by_columns(of.by_columns),
      by_line_segments(of.by_line_segments),
      by_burst(make_divisor(bursts.burst)),
      by_held_(make_divisor(bursts.halves * bursts.burst)),
      by_box_lines_(make_divisor(boxes.lines)),
      first_segment{of.first_segment[0], of.first_segment[1]} {}

WgmmaStore WgmmaStore::of_boxes(const WgmmaSegments& segments, const WgmmaBursts& bursts, WgmmaBoxes boxes) {
  return WgmmaStore(segments, bursts, WgmmaStoreWay::kBoxes, {}, boxes);
}
WgmmaStore WgmmaStore::by_threads(const WgmmaSegments& segments, const WgmmaBursts& bursts, WgmmaBoxes boxes) {
  return WgmmaStore(segments, bursts, WgmmaStoreWay::kThreads, {}, boxes);
}
WgmmaStore WgmmaStore::of_runs(const WgmmaSegments& segments, const WgmmaBursts& bursts, WgmmaRuns runs) {
  return WgmmaStore(segments, bursts, WgmmaStoreWay::kRuns, runs, {1, 0});
}
WgmmaStore WgmmaStore::from_registers(const WgmmaSegments& segments, const WgmmaBursts& bursts) {
  return WgmmaStore(segments, bursts, WgmmaStoreWay::kRegisters, {}, {1, 0});
}
WgmmaStore WgmmaStore::with_marks(const WgmmaMarks& of_bursts) const {
  WgmmaStore result = *this;
  result.marks = of_bursts;
  return result;
}
WgmmaStore WgmmaStore::boxes_by_threads() const {
  WgmmaStore result = *this;
  result.way_ = WgmmaStoreWay::kBoxesByThreads;
  return result;
}

WgmmaStore make_store(int element_bytes, const WgmmaArrangement& arrangement, const WgmmaTile& tile,
                      const WgmmaStoreShape& shape, int32_t least_burst, int64_t bytes) {
  const WgmmaSegments& segments = shape.segments;
  const int64_t warp_bytes = bytes / kWgmmaConsumerWarps;
  if (const auto* const rows = std::get_if<Rows>(&shape.way)) {
    const RowBursts widest = widest_of_rows(segments, *rows, least_burst, warp_bytes);
    return rows->boxes ? WgmmaStore::of_boxes(segments, widest.bursts, widest.boxes)
                       : WgmmaStore::by_threads(segments, widest.bursts, widest.boxes);
  }
  if (const auto* const runs = std::get_if<WgmmaRuns>(&shape.way)) {
    return widest_of_runs(element_bytes, arrangement, tile, segments, *runs, least_burst, warp_bytes);
  }
  return WgmmaStore::from_registers(segments, {0, 1, 1, std::get<Kept>(shape.way).warp_bytes});
}

int32_t bursts(const WgmmaTile& tile, const WgmmaStore& store) {
  if (store.runs()) {
    const int g = store.segments[1] > store.segments[0] ? 1 : 0;
    return store.burst_of(tile, g, store.segments[g] - 1) + 1;
  }
  return static_cast<int32_t>(ceil_div(burst_segments(store), store.burst));
}

WgmmaMarks make_marks(const WgmmaTile& tile, const WgmmaStore& store) {
  WgmmaMarks marks{};
  if (store.registers()) return marks;
  for (int g = 0; g < 2; ++g) mark_bursts(tile, store, g, marks);
  return marks;
}

}  // namespace convt3d
