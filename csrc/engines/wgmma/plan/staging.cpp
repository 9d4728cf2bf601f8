#include "engines/wgmma/plan/staging.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/integer.h"
#include "engines/wgmma/plan/plan.h"

namespace convt3d {
namespace {

constexpr int64_t kSegmentBytes = 2304;  // that a segment should not exceed
constexpr int64_t kMostSegmentBytes = 9216;
constexpr int64_t kRunBytes = 1152;    // of a channel, that a segment of a run should not exceed
constexpr int64_t kAlignedBytes = 16;  // that a run and its staging have alike

int32_t swizzle_of(int64_t row_bytes) { return static_cast<int32_t>(row_bytes - 16) & 0x70; }

// Columns of each of the equal even parts of a row: at most `most`, unless that makes them many times shorter.
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
void set_columns(int32_t columns, HaloStaging& staging) {
  staging.columns = columns;
  staging.row_segments = static_cast<int32_t>(ceil_div(staging.tile[2], columns));
  staging.by_halo_height = make_divisor(staging.halo[1]);
  staging.by_halo_width = make_divisor(staging.halo[2]);
  staging.by_tile_rows = make_divisor(staging.tile[1]);
  staging.by_columns = make_divisor(columns);
  staging.by_row_segments = make_divisor(staging.row_segments);
  for (int g = 0; g < 2; ++g) staging.first_segment[g] = staging.segment_of(staging.at(staging.start[g]));
}

// Boxes of rows of 32, 64 or 128 bytes along the width. Part of a row is no box unless the output ends there.
bool shape_row_boxes(const HaloPlan& plan, int column_bytes, HaloStaging& staging) {
  const int64_t row_bytes = int64_t{plan.tile[2]} * column_bytes;
  int64_t best = 0;
  for (const int64_t inner : {128, 64, 32}) {
    if (inner % (2 * column_bytes) != 0 || (row_bytes % inner != 0 && plan.tiles[2] > 1)) continue;
    const auto cost = [&](int64_t bytes) { return ceil_div(row_bytes, bytes) * (bytes + 16); };
    if (best == 0 || cost(inner) < cost(best)) best = inner;
  }
  if (best == 0) return false;
  staging.pitch = static_cast<int32_t>(best);
  staging.swizzle = swizzle_of(best);
  set_columns(static_cast<int32_t>(best / column_bytes), staging);
  return true;
}

// Bytes from a channel of a run to the next. An odd multiple of 16 spreads eight channels, which are staged at a time,
// each with its own alignment, over the banks of shared memory.
int32_t run_pitch(int64_t bytes) { return static_cast<int32_t>(round_up(bytes + kAlignedBytes, 32) + kAlignedBytes); }

// Whether `batch` rows can be a batch: no step has parts of three.
bool run_batch_fits(const HaloStaging& staging, int element_bytes, int32_t batch) {
  if (int64_t{batch} * staging.segment_bytes > int64_t{element_bytes} << kHaloRunOffsetBits) return false;
  if (staging.row_segments > 1) return batch == 1 && staging.columns >= staging.step;
  const auto fills_step = [&](int32_t rows) { return (rows - 1) * staging.halo[2] + staging.tile[2] >= staging.step; };
  if (staging.tile[0] == 1) return batch >= staging.tile[1] || fills_step(batch);
  bool fits = fills_step(std::min(batch, staging.tile[1]));
  for (const int32_t segment : staging.first_segment) {
    // The last rows of a warpgroup's first depth; those of the others are like the first warpgroup's.
    const int32_t first = segment / staging.row_segments;
    const int32_t rest = (staging.tile[1] - first % staging.tile[1]) % batch;
    fits = fits && (rest == 0 || fills_step(rest));
  }
  return fits;
}

void set_run_batch(int32_t slab_channels, int32_t batch, HaloStaging& staging) {
  staging.batch = batch;
  staging.by_batch = make_divisor(batch);
  staging.pitch = run_pitch(int64_t{batch} * staging.segment_bytes);
  staging.warp_bytes = slab_channels * staging.pitch;
}

// The smallest batches; false where there are none. `element_bytes`: of the output, whose width is contiguous.
bool shape_runs(const HaloPlan& plan, int element_bytes, HaloStaging& staging) {
  const int64_t output_row = int64_t{plan.axis[2].dst_size} * element_bytes;
  const int64_t output_step = plan.height_sets() ? output_row : output_row * plan.axis[1].stride;
  staging.rows = plan.height_sets() ? 2 : 1;
  set_columns(equal_parts(plan.tile[2], std::max<int64_t>(2, kRunBytes / staging.rows / staging.column_bytes)),
              staging);
  const bool whole = plan.tiles[2] == 1 && staging.columns == plan.tile[2];
  const int64_t row_bytes = whole ? output_row : int64_t{staging.columns} * staging.column_bytes;
  staging.joined_rows = whole && output_step == row_bytes;
  staging.row_step =
      static_cast<int32_t>(row_bytes + ((output_step - row_bytes) % kAlignedBytes + kAlignedBytes) % kAlignedBytes);
  staging.segment_bytes = staging.rows * staging.row_step;
  staging.swizzle = 0;
  staging.halves = 1;
  if (plan.height_sets() && !staging.joined_rows) return false;
  for (int32_t batch = 1; batch <= plan.tile[1]; ++batch) {
    if (!run_batch_fits(staging, element_bytes, batch)) continue;
    set_run_batch(plan.slab_channels, batch, staging);
    return true;
  }
  return false;
}

int32_t batched_segments(const HaloStaging& staging) {
  int32_t most = 1;
  for (int g = 0; g < 2; ++g) most = std::max(most, staging.segments[g] - (staging.part[g] >= 0 ? 1 : 0));
  return most;
}

bool has_part(const HaloStaging& staging) { return staging.part[0] >= 0 || staging.part[1] >= 0; }

// Rows that can be one box wherever the warpgroups' outputs are cut, and at each depth's end: as many as divide the
// rows that a warpgroup has in a depth.
int32_t most_box_rows(const HaloStaging& staging) {
  if (!staging.boxes() || has_part(staging)) return 1;
  int32_t common = 0;
  for (int g = 0; g < 2; ++g) {
    const int32_t first = staging.first_segment[g];
    if (first % staging.row_segments != 0 || staging.segments[g] % staging.row_segments != 0) return 1;
    const int32_t end = (first + staging.segments[g]) / staging.row_segments;
    for (int32_t row = first / staging.row_segments; row < end;) {
      const int32_t next = std::min(end, (row / staging.tile[1] + 1) * staging.tile[1]);
      common = std::gcd(common, next - row);
      row = next;
    }
  }
  return std::max(common, 1);
}

// From a box of so many rows to the next. The swizzle's pattern repeats after 8 rows of it; boxes begin at a multiple
// of 128 bytes.
int64_t aligned_box_bytes(const HaloStaging& staging, int32_t rows) {
  return round_up(int64_t{rows} * staging.segment_bytes, std::max(128, 8 * (staging.swizzle + 16)));
}

void set_batch(int32_t batch, HaloStaging& staging) {
  const int32_t most = batched_segments(staging);
  staging.halves = batch >= most ? 1 : 2;
  staging.batch = std::min(batch, most);
  staging.by_batch = make_divisor(staging.batch);
  staging.by_places = make_divisor(staging.halves * staging.batch);
  staging.box_rows = most_box_rows(staging);
  if (staging.halves == 2) {
    const bool whole_rows = staging.batch % staging.row_segments == 0;
    staging.box_rows = whole_rows ? std::gcd(staging.box_rows, staging.batch / staging.row_segments) : 1;
  }
  staging.by_box_rows = make_divisor(staging.box_rows);
  staging.box_bytes = static_cast<int32_t>(aligned_box_bytes(staging, staging.box_rows));
  staging.warp_bytes =
      (staging.halves * staging.batch / staging.box_rows + (has_part(staging) ? 1 : 0)) * staging.box_bytes;
}

// A batch but the first and the last has at least `step` columns: no more than one begins, and no more than one ends,
// within a step.
void mark_batches(int g, HaloStaging& staging) {
  const int32_t first = staging.first_segment[g];
  const int32_t steps = static_cast<int32_t>(ceil_div(staging.extent, staging.step));
  staging.end[g] = staging.open[g] = 0;
  // The batches of a step's first and last output; -1: it has none.
  std::array<int32_t, 32> low;
  std::array<int32_t, 32> high;
  for (int32_t i = 0; i < steps; ++i) {
    low[i] = high[i] = -1;
    for (int32_t column = i * staging.step; column < std::min((i + 1) * staging.step, staging.extent); ++column) {
      const HaloPosition position = staging.at(staging.start[g] + column);
      const int32_t segment = staging.segment_of(position) - first;
      if (!staging.is_output(position) || segment == staging.part[g]) continue;
      high[i] = staging.batch_of(g, segment);
      if (low[i] < 0) low[i] = high[i];
    }
  }
  int32_t next = 0;  // the batch of the outputs that follow
  for (int32_t i = 0; i < steps; ++i) {
    if (low[i] < high[i]) staging.open[g] |= 1u << i;
    next = std::max(next, high[i]);
  }
  for (int32_t i = steps - 1; i >= 0; --i) {
    if (high[i] < 0) continue;
    if (low[i] < next) staging.end[g] |= 1u << i;
    next = low[i];
  }
}

// What a warp keeps of a unit: two fragments of every pair.
int32_t kept_bytes(int element_bytes, const HaloStaging& staging) {
  int32_t most = 0;
  for (int g = 0; g < 2; ++g) {
    int32_t pairs = 0;
    for (int32_t place = 0; place < staging.extent; ++place) pairs += staging.pair_positions(g, place) > 0 ? 1 : 0;
    most = std::max(most, pairs);
  }
  return most * kHaloKeptElements * element_bytes;
}

}  // namespace

const char* to_string(HaloWay way) {
  switch (way) {
    case HaloWay::kBoxes:
      return "boxes";
    case HaloWay::kThreads:
      return "threads";
    case HaloWay::kRuns:
      return "runs";
    case HaloWay::kRegisters:
      return "registers";
  }
  return "";
}

bool shape_staging(const Problem& problem, int element_bytes, bool channels_last, HaloPlan& plan) {
  HaloStaging staging{};
  for (int i = 0; i < 3; ++i) {
    staging.tile[i] = plan.tile[i];
    staging.halo[i] = plan.halo[i];
  }
  staging.start[1] = plan.second_start >> plan.image_log;
  staging.extent = plan.columns >> plan.image_log;
  staging.step = kHaloStagedColumns >> plan.image_log;
  const int phases = plan.pair_rows || plan.width_sets() ? 2 : 1;
  // A box of a group's last channels would reach into the next group; a residue without positions has no box.
  bool boxes = plan.groups == 1 || plan.out_channels % plan.slab_channels == 0;
  for (const HaloAxis& axis : plan.axis) boxes = boxes && axis.dst_size >= axis.stride;
  if (channels_last) {
    staging.pitch = plan.slab_channels * element_bytes;
    staging.swizzle = swizzle_of(staging.pitch);
    staging.column_bytes = (phases * staging.pitch) << plan.image_log;
    // Neighbouring columns are images where those share a tile.
    set_columns(plan.image_log > 0 ? plan.tile[2] : equal_parts(plan.tile[2], kSegmentBytes / staging.column_bytes),
                staging);
    boxes = boxes && problem.out_channels * element_bytes % 16 == 0;
    staging.way = boxes ? HaloWay::kBoxes : HaloWay::kThreads;
  } else if (plan.image_log > 0) {
    staging.way = HaloWay::kRegisters;
    set_columns(plan.tile[2], staging);
    for (int g = 0; g < 2; ++g) staging.part[g] = -1;
    set_batch(1, staging);
    if (plan.phase_pairs) staging.warp_bytes = kept_bytes(element_bytes, staging);
    plan.staging = staging;
    return true;
  } else {
    staging.column_bytes = phases * element_bytes;
    boxes = boxes && int64_t{plan.axis[2].dst_size} * element_bytes % 16 == 0 &&
            shape_row_boxes(plan, staging.column_bytes, staging);
    staging.way = boxes ? HaloWay::kBoxes : HaloWay::kRuns;
    if (plan.height_sets() && boxes) return false;  // rows of boxes gain nothing by it
  }
  if (staging.runs()) {
    if (!shape_runs(plan, element_bytes, staging)) return false;
  } else {
    staging.rows = 1;
    const int64_t rows_bytes =
        channels_last ? int64_t{staging.columns} * staging.column_bytes : int64_t{plan.slab_channels} * staging.pitch;
    if (rows_bytes > kMostSegmentBytes) return false;
    staging.segment_bytes = static_cast<int32_t>(rows_bytes);
  }
  for (int g = 0; g < 2; ++g) {
    const HaloPosition last = staging.at(staging.start[g] + staging.extent - 1);
    staging.segments[g] = staging.segment_of(last) - staging.first_segment[g] + (staging.is_output(last) ? 1 : 0);
    if (staging.segments[g] > kHaloMaxStoredSegments) return false;
    staging.part[g] = -1;
  }
  // Where the second warpgroup goes on with what the first one begins.
  const HaloPosition cut = staging.at(staging.start[1]);
  const bool cuts = staging.start[1] == staging.extent && staging.is_output(cut);
  if (boxes && cuts && cut.w % staging.columns != 0) {
    staging.part[0] = staging.segments[0] - 1;
    staging.part[1] = 0;
  }
  if (staging.runs()) {
    // Both phases of the height are one run only of whole rows.
    if (cuts && cut.w != 0 && plan.height_sets()) return false;
  } else {
    // Outputs of a whole segment, and of the shortest, the last one of a row.
    const int32_t whole = std::min(staging.columns, plan.tile[2]);
    const int32_t shortest = plan.tile[2] - (staging.row_segments - 1) * staging.columns;
    set_batch(static_cast<int32_t>(1 + ceil_div(std::max(0, staging.step - shortest), whole)), staging);
  }
  plan.staging = staging;
  return true;
}

void widen_batches(int64_t bytes, int element_bytes, HaloPlan& plan) {
  HaloStaging& staging = plan.staging;
  if (!staging.runs()) {
    const int32_t most = batched_segments(staging);
    if (staging.halves == 1) return;
    HaloStaging wider = staging;
    set_batch(most, wider);
    if (int64_t{kHaloMultiplyWarps} * wider.warp_bytes > bytes) {
      // Of boxes of one row each, which take the most.
      const int64_t batch =
          (bytes / kHaloMultiplyWarps / aligned_box_bytes(staging, 1) - (has_part(staging) ? 1 : 0)) / 2;
      if (batch <= staging.batch) return;
      set_batch(static_cast<int32_t>(batch), wider);
    }
    staging = wider;
    return;
  }
  const int32_t rows = std::min(staging.tile[1], std::max(staging.segments[0], staging.segments[1]));
  for (int32_t parts = 1; staging.row_segments == 1 && parts <= rows; ++parts) {
    const int32_t batch = static_cast<int32_t>(ceil_div(rows, parts));
    if (batch <= staging.batch) return;
    const int64_t pitch = run_pitch(int64_t{batch} * staging.segment_bytes);
    if (kHaloMultiplyWarps * plan.slab_channels * pitch > bytes || !run_batch_fits(staging, element_bytes, batch)) {
      continue;
    }
    set_run_batch(plan.slab_channels, batch, staging);
    return;
  }
}

int32_t batches(const HaloStaging& staging) {
  if (staging.runs()) {
    const int g = staging.segments[1] > staging.segments[0] ? 1 : 0;
    return staging.batch_of(g, staging.segments[g] - 1) + 1;
  }
  return static_cast<int32_t>(ceil_div(batched_segments(staging), staging.batch));
}

void mark_batches(HaloStaging& staging) {
  if (staging.way == HaloWay::kRegisters) return;
  for (int g = 0; g < 2; ++g) mark_batches(g, staging);
}

}  // namespace convt3d
