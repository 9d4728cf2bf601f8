#include "engines/wgmma/plan/store_shape.h"

#include <algorithm>
#include <numeric>

#include "core/integer.h"
#include "device/swizzle.h"

namespace convt3d {
namespace {

using Rows = WgmmaStoreShape::Rows;
using Kept = WgmmaStoreShape::Kept;

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

// How the warpgroups' columns are cut into segments of so many of a line.
WgmmaSegments cut_lines(const WgmmaTile& tile, bool channels_last, int32_t column_bytes, int32_t columns) {
  WgmmaSegments segments{};
  segments.channels_contiguous = channels_last;
  segments.column_bytes = column_bytes;
  segments.columns = columns;
  segments.line_segments = static_cast<int32_t>(ceil_div(tile.size[2], columns));
  segments.by_columns = make_divisor(columns);
  segments.by_line_segments = make_divisor(segments.line_segments);
  segments.start[1] = tile.second_start >> tile.image_log;
  segments.extent = tile.columns >> tile.image_log;
  segments.strip = kWgmmaStripColumns >> tile.image_log;
  for (int g = 0; g < 2; ++g) {
    segments.first_segment[g] = wgmma_segment_of(segments, tile, tile.at(segments.start[g]));
    segments.part[g] = -1;
  }
  return segments;
}

// False where there are too many.
bool count_segments(const WgmmaTile& tile, WgmmaSegments& segments) {
  for (int g = 0; g < 2; ++g) {
    const WgmmaPosition last = tile.at(segments.start[g] + segments.extent - 1);
    segments.segments[g] =
        wgmma_segment_of(segments, tile, last) - segments.first_segment[g] + (tile.is_output(last) ? 1 : 0);
    if (segments.segments[g] > kWgmmaMaxStoredSegments) return false;
  }
  return true;
}

// Where in a line the second warpgroup goes on with what the first one begins; 0 where it begins anew.
int32_t shared_columns(const WgmmaTile& tile, const WgmmaSegments& segments) {
  const WgmmaPosition cut = tile.at(segments.start[1]);
  return segments.start[1] == segments.extent && tile.is_output(cut) ? cut.w : 0;
}

// Bytes of a box's row along the width: 32, 64 or 128. Nothing where there is none: part of a line is no box unless the
// output ends there.
std::optional<int32_t> row_of_line_boxes(const WgmmaTile& tile, int column_bytes) {
  const int64_t line_bytes = int64_t{tile.size[2]} * column_bytes;
  int64_t best = 0;
  for (const int64_t inner : {128, 64, 32}) {
    if (inner % (2 * column_bytes) != 0 || (line_bytes % inner != 0 && tile.count[2] > 1)) continue;
    const auto cost = [&](int64_t bytes) { return ceil_div(line_bytes, bytes) * (bytes + 16); };
    if (best == 0 || cost(inner) < cost(best)) best = inner;
  }
  if (best == 0) return std::nullopt;
  return static_cast<int32_t>(best);
}

// What a warp keeps of a pass: two fragments of every pair.
int32_t kept_bytes(const WgmmaTile& tile, int element_bytes, const WgmmaSegments& segments) {
  int32_t most = 0;
  for (int g = 0; g < 2; ++g) {
    int32_t pairs = 0;
    for (int32_t i = 0; i < segments.extent; ++i) pairs += wgmma_pair_positions(segments, tile, g, i) > 0 ? 1 : 0;
    most = std::max(most, pairs);
  }
  return most * kWgmmaKeptElements * element_bytes;
}

std::optional<WgmmaStoreShape> shape_registers(int element_bytes, const WgmmaArrangement& arrangement,
                                               const WgmmaTile& tile) {
  WgmmaSegments segments = cut_lines(tile, false, 0, tile.size[2]);
  segments.phase_pairs = !arrangement.both_widths() && !arrangement.folds_apart && arrangement.axis[2].outer.is_two();
  return WgmmaStoreShape{segments, Kept{segments.phase_pairs ? kept_bytes(tile, element_bytes, segments) : 0}, 1};
}

// `element_bytes`: of the output, whose width is contiguous.
std::optional<WgmmaStoreShape> shape_runs(const WgmmaArrangement& arrangement, const WgmmaTile& tile, int element_bytes,
                                          int32_t column_bytes) {
  const bool both_heights = arrangement.height_sets();
  const int64_t output_line = int64_t{arrangement.axis[2].dst_size} * element_bytes;
  const int64_t output_step = both_heights ? output_line : output_line * arrangement.axis[1].stride;
  WgmmaRuns runs;
  runs.lines = {both_heights ? 2 : 1};
  WgmmaSegments segments =
      cut_lines(tile, false, column_bytes,
                equal_parts(tile.size[2], std::max<int64_t>(2, kRunBytes / runs.lines / column_bytes)));
  const bool whole = tile.count[2] == 1 && segments.columns == tile.size[2];
  const int64_t line_bytes = whole ? output_line : int64_t{segments.columns} * column_bytes;
  runs.joined_lines = whole && output_step == line_bytes;
  runs.line_step =
      static_cast<int32_t>(line_bytes + ((output_step - line_bytes) % kAlignedBytes + kAlignedBytes) % kAlignedBytes);
  segments.segment_bytes = runs.lines * runs.line_step;
  // Both phases of the height are one run only of whole lines.
  if (both_heights && (!runs.joined_lines || shared_columns(tile, segments) != 0)) return std::nullopt;
  if (!count_segments(tile, segments)) return std::nullopt;
  for (int32_t burst = 1; burst <= tile.size[1]; ++burst) {
    if (run_burst_fits(tile, segments, element_bytes, burst)) return WgmmaStoreShape{segments, runs, burst};
  }
  return std::nullopt;
}

// Lines that can be one box wherever the warpgroups' outputs are cut, and at each depth's end: as many as divide the
// lines that a warpgroup has in a depth.
int32_t most_box_lines(const WgmmaTile& tile, const WgmmaSegments& segments) {
  if (segments.has_part()) return 1;
  int32_t common = 0;
  for (int g = 0; g < 2; ++g) {
    const int32_t first = segments.first_segment[g];
    if (first % segments.line_segments != 0 || segments.segments[g] % segments.line_segments != 0) return 1;
    const int32_t end = (first + segments.segments[g]) / segments.line_segments;
    for (int32_t line = first / segments.line_segments; line < end;) {
      const int32_t next = std::min(end, (line / tile.size[1] + 1) * tile.size[1]);
      common = std::gcd(common, next - line);
      line = next;
    }
  }
  return std::max(common, 1);
}

// `segments`: not counted yet, and without what follows from their rows.
std::optional<WgmmaStoreShape> shape_rows(const WgmmaTile& tile, WgmmaSegments segments, bool boxes, int32_t pitch,
                                          int64_t segment_bytes) {
  if (segment_bytes > kMostSegmentBytes || !count_segments(tile, segments)) return std::nullopt;
  segments.segment_bytes = static_cast<int32_t>(segment_bytes);
  segments.swizzle = swizzle_mask(pitch);
  if (boxes && shared_columns(tile, segments) % segments.columns != 0) {
    segments.part[0] = segments.segments[0] - 1;
    segments.part[1] = 0;
  }
  // Outputs of a whole segment, and of the shortest, the last one of a line.
  const int32_t whole = std::min(segments.columns, tile.size[2]);
  const int32_t shortest = tile.size[2] - (segments.line_segments - 1) * segments.columns;
  const int64_t burst = 1 + ceil_div(std::max(0, segments.strip - shortest), whole);
  const Rows rows{boxes, boxes ? most_box_lines(tile, segments) : 1, pitch};
  return WgmmaStoreShape{segments, rows, static_cast<int32_t>(burst)};
}

}  // namespace

// An odd multiple of 16 spreads eight channels, which are staged at a time, each with its own alignment, over the banks
// of shared memory.
int32_t run_pitch(int64_t bytes) { return static_cast<int32_t>(round_up(bytes + kAlignedBytes, 32) + kAlignedBytes); }

bool run_burst_fits(const WgmmaTile& tile, const WgmmaSegments& segments, int element_bytes, int32_t burst) {
  if (int64_t{burst} * segments.segment_bytes > int64_t{element_bytes} << kWgmmaRunOffsetBits) return false;
  if (segments.line_segments > 1) return burst == 1 && segments.columns >= segments.strip;
  const auto fills_step = [&](int32_t lines) { return (lines - 1) * tile.halo[2] + tile.size[2] >= segments.strip; };
  if (tile.size[0] == 1) return burst >= tile.size[1] || fills_step(burst);
  bool fits = fills_step(std::min(burst, tile.size[1]));
  for (const int32_t segment : segments.first_segment) {
    // The last lines of a warpgroup's first depth; those of the others are like the first warpgroup's.
    const int32_t first = segment / segments.line_segments;
    const int32_t rest = (tile.size[1] - first % tile.size[1]) % burst;
    fits = fits && (rest == 0 || fills_step(rest));
  }
  return fits;
}

std::optional<WgmmaStoreShape> make_store_shape(const WgmmaProblem& problem, int element_bytes, bool channels_last,
                                                const WgmmaProduct& product, const WgmmaArrangement& arrangement,
                                                const WgmmaTile& tile) {
  if (!channels_last && tile.image_log > 0) return shape_registers(element_bytes, arrangement, tile);
  const int32_t slab_channels = arrangement.slab_channels();
  const int phases = arrangement.both_widths() ? 2 : 1;
  // A box of a group's last channels would reach into the next group; a residue without positions has no box.
  bool boxes = product.groups == 1 || product.out_channels % slab_channels == 0;
  for (const WgmmaAxis& axis : arrangement.axis) boxes = boxes && axis.dst_size >= axis.stride;
  if (channels_last) {
    const int32_t pitch = slab_channels * element_bytes;
    const int32_t column_bytes = (phases * pitch) << tile.image_log;
    // Neighbouring columns are images where those share a tile.
    const int32_t columns = tile.image_log > 0 ? tile.size[2] : equal_parts(tile.size[2], kSegmentBytes / column_bytes);
    boxes = boxes && problem.out_channels * element_bytes % 16 == 0;
    return shape_rows(tile, cut_lines(tile, true, column_bytes, columns), boxes, pitch,
                      int64_t{columns} * column_bytes);
  }
  const int32_t column_bytes = phases * element_bytes;
  boxes = boxes && int64_t{arrangement.axis[2].dst_size} * element_bytes % 16 == 0;
  const std::optional<int32_t> pitch = boxes ? row_of_line_boxes(tile, column_bytes) : std::nullopt;
  if (!pitch) return shape_runs(arrangement, tile, element_bytes, column_bytes);
  if (arrangement.height_sets()) return std::nullopt;  // lines of boxes gain nothing by it
  return shape_rows(tile, cut_lines(tile, false, column_bytes, *pitch / column_bytes), true, *pitch,
                    int64_t{slab_channels} * *pitch);
}

}  // namespace convt3d
