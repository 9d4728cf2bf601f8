// What every plan of a weight gradient on mma.sync is held to, of those that compute more beside it, too.
#pragma once

#include "core/integer.h"
#include "engines/mma/weight_grad/plan.h"
#include "terms.h"

#include <set>
#include <vector>

namespace convt3d::mma {

constexpr int64_t kWorkspaceBytes = int64_t{64} << 20;

// A problem whose first axis is this one.
inline Problem turned(const Problem& problem, std::size_t axis) {
  Problem result = problem;
  for (Int3 Problem::* three : {&Problem::input_size, &Problem::kernel_size, &Problem::stride, &Problem::padding,
                                &Problem::output_padding, &Problem::dilation}) {
    (result.*three)[0] = (problem.*three)[axis];
  }
  return result;
}

// Of channel rows: what the taps of a box read is copied, wherever copies begin.
inline void check_channel_rows(const Problem& problem, const WeightGradPlan& plan) {
  const TapParts& taps = plan.taps[2];
  if (plan.grad.has_channel_rows()) {
    const ChannelRows& rows = plan.grad.channel_rows;
    bool inside = true;
    for (int32_t part = 0; part < taps.parts; ++part) {
      const int32_t before = rows.before(taps.offset(part, 0));
      const int32_t last = (plan.box[2] - 1) * plan.grad.column_step + taps.coordinates(taps.most - 1);
      inside = inside && before + last < rows.pieces * rows.elements;
    }
    expect(inside, "a row has what its taps read", problem);
    expect(rows.elements == 1 || plan.boxes[3] == 1 || plan.box[2] * taps.step % rows.elements == 0,
           "boxes begin where copies may", problem);
  }
  if (plan.input.has_channel_rows()) {
    const ChannelRows& rows = plan.input.channel_rows;
    const bool fills = plan.images * plan.box[0] * plan.box[1] * plan.box[2] % kGradStep != 0;
    expect(rows.pieces * rows.elements * plan.element_bytes <= rows.pitch - (fills ? plan.element_bytes : 0),
           "zeros are nobody else's", problem);
    expect(rows.elements == 1 || plan.boxes[3] == 1 || plan.box[2] % rows.elements == 0, "boxes begin where copies may",
           problem);
  }
}

// Positions of boxes, taps of parts: by the tile's rows, as the kernel reads them.
inline void check_axis(const Problem& any, const WeightGradPlan& plan, std::size_t axis) {
  const Problem problem = turned(any, axis);
  const TapParts& taps = plan.taps[axis];
  const int64_t boxes = plan.boxes[axis + 1];
  const auto inputs = static_cast<int32_t>(problem.input_size[0]);
  const auto outputs = static_cast<int32_t>(problem.output_size(0));
  std::vector<Term> visited;
  bool inside = true;
  for (int32_t part = 0; part < taps.parts; ++part) {
    for (int32_t j = 0; j < taps.count(part); ++j) {
      for (int64_t box = 0; box < boxes; ++box) {
        for (int32_t u = 0; u < plan.box[axis]; ++u) {
          const int32_t first = static_cast<int32_t>(box) * plan.box[axis];
          const int32_t row = u + taps.shift(j);
          inside = inside && row < taps.rows();
          const int32_t component = row / taps.length;
          const int32_t at = (first + row % taps.length) * taps.step + taps.offset(part, component);
          const int32_t tap = taps.first(part) + j * taps.stride;
          if (first + u < inputs && at >= 0 && at < outputs) visited.push_back({first + u, tap, at});
        }
      }
    }
  }
  const std::set<Term> unique(visited.begin(), visited.end());
  expect(inside, "a tap's shift stays in the tile", problem);
  expect(unique.size() == visited.size() && unique == defined_terms(problem), "parts of taps visit the defined terms",
         problem);
}

// All pieces of a tile are loaded, each by one thread; of raw rows, what a box reads fits in its row wherever it
// begins.
inline void check_loading(const Problem& problem, const StagedTile& tile, const LoadShape& shape, LoadWay way,
                          int32_t element_bytes) {
  expect(shape.threads == kLoadingThreads && shape.at_once <= shape.threads && shape.groups >= 1 &&
             shape.at_once * shape.groups <= shape.threads,
         "threads have places", problem);
  expect(shape.at_once * shape.iterations >= shape.places && shape.at_once * (shape.iterations - 1) < shape.places,
         "iterations cover the places", problem);
  expect(shape.each * shape.groups >= shape.lines, "groups cover the lines", problem);
  expect(shape.lines * shape.columns == tile.staged_rows(), "lines are those of the tile", problem);
  if (has_channel_rows(way)) {
    const ChannelRows& rows = tile.channel_rows;
    const int32_t channels = tile.pieces * (kPieceBytes / element_bytes);
    expect(tile.has_channel_rows() && tile.pitch == element_bytes && shape.places == channels * rows.pieces,
           "places are those of channel rows", problem);
    expect(rows.pitch % (2 * kPieceBytes) == kPieceBytes, "eight channels begin in banks of their own", problem);
    expect(rows.elements == 1 || rows.elements * element_bytes == kPieceBytes, "copies are aligned", problem);
    expect(
        rows.pieces * rows.elements * element_bytes <= rows.pitch && tile.axis[2].length <= rows.pieces * rows.elements,
        "a row has all that is copied", problem);
    expect(tile.stride[2] * tile.pitch >= channels * rows.pitch && tile.stride[2] * tile.pitch % kPieceBytes == 0 &&
               tile.stride[1] * tile.pitch % kPieceBytes == 0 && tile.stride[0] * tile.pitch % kPieceBytes == 0,
           "lines hold all channels", problem);
    return;
  }
  if (way != LoadWay::kRows) {
    expect(shape.places * shape.part_bytes == shape.columns * tile.pieces * kPieceBytes && shape.raw.bytes == 0 &&
               shape.column_entries() == 0,
           "places are those of the tile", problem);
    return;
  }
  const int32_t channels = tile.pieces * (kPieceBytes / element_bytes);
  const RawRows& raw = shape.raw;
  const int32_t in_piece = kPieceBytes / element_bytes;
  expect(shape.places == channels * raw.pieces && raw.pieces * kPieceBytes <= raw.pitch, "places are those of raw rows",
         problem);
  expect(raw.pitch % kPieceBytes == 0 &&
             (raw.matrices ? raw.pitch / kPieceBytes % 4 != 0 : raw.item_pitch / kPieceBytes % 2 == 1),
         "at most two rows of a matrix meet in a bank, pieces of channels in none", problem);
  // Whole rows are read from a multiple of 16 bytes on, which is known where all boxes begin alike.
  const int32_t lead = raw.begin == RowsBegin::kWhole ? (raw.least % in_piece + in_piece) % in_piece : in_piece - 1;
  expect(raw.span + lead <= raw.pieces * in_piece, "a row has all that is read", problem);
  const TileAxis& width = tile.axis[2];
  for (int32_t component = 0; component < width.components; ++component) {
    for (const int32_t row : {0, width.length - 1}) {
      const int32_t from = row * width.step + width.delta[component] - raw.least;
      expect(from >= 0 && from < raw.span, "a row of the tile is read", problem);
    }
  }
  expect(raw.bytes == int64_t{shape.lines} * tile.pieces * raw.item_pitch, "raw rows have room", problem);
}

// `rows`: fragments that a warp may have.
inline void check_plan(const Problem& problem, const WeightGradPlan& plan, const DeviceTraits& limits, int32_t rows) {
  for (std::size_t axis = 0; axis < 3; ++axis) check_axis(problem, plan, axis);
  expect(plan.layout.bytes <= limits.shared_bytes, "a block has the shared memory that it needs", problem);
  expect(plan.stages >= 2 && plan.stages <= kMostGradStages, "stages", problem);
  expect(plan.ahead >= 1 && (plan.only_rows()     ? plan.ahead < kMostGradStages
                             : plan.only_copies() ? plan.ahead == plan.stages
                                                  : plan.ahead < plan.stages),
         "boxes on their way", problem);
  const GradLayout& layout = plan.layout;
  for (const int32_t place :
       {layout.stages, layout.stage_bytes, layout.input, layout.tables, layout.table_bytes, layout.input_table,
        layout.raw, layout.raw_bytes, layout.input_raw, layout.grad_fixed, layout.input_fixed, layout.barriers}) {
    expect(place % 16 == 0, "what is read by 16 bytes is aligned", problem);
  }
  const bool masked = plan.layouts.masked;
  expect(layout.input_fixed - layout.grad_fixed >= plan.grad_shape.fixed_bytes() &&
             layout.tables - layout.input_fixed >= plan.input_shape.fixed_bytes() &&
             layout.input_table >= plan.grad_shape.table_bytes(masked) &&
             layout.table_bytes - layout.input_table >= plan.input_shape.table_bytes(false) &&
             layout.raw - layout.tables >= plan.tables() * layout.table_bytes &&
             layout.input_raw >= plan.grad_shape.raw_bytes(masked) &&
             layout.raw_bytes - layout.input_raw >= plan.input_shape.raw_bytes(false) &&
             layout.stages - layout.raw >= plan.ahead * layout.raw_bytes &&
             layout.bytes >= layout.stages + int64_t{plan.stages} * layout.stage_bytes,
         "shared memory is nobody else's", problem);
  check_loading(problem, plan.grad, plan.grad_shape, plan.layouts.grad, plan.element_bytes);
  check_loading(problem, plan.input, plan.input_shape, plan.layouts.input, plan.element_bytes);
  check_channel_rows(problem, plan);
  expect(plan.warps_groups * plan.warps_m * plan.warps_n * plan.warps_k <= kGradWarps, "warps", problem);
  expect(plan.most_fragments() <= rows * plan.warps_m, "a warp has registers", problem);
  expect(plan.n_chunk == 8 * plan.columns * plan.warps_n, "columns", problem);
  expect(int64_t{plan.n_chunk} * plan.n_chunks >= plan.n_channels && plan.row_chunk % 8 == 0 &&
             int64_t{plan.row_chunk} * plan.row_chunks >= plan.row_channels,
         "chunks cover the channels", problem);
  if (plan.warps_groups > 1) {
    expect(plan.row_chunks == 1 && plan.n_chunks == 1 && plan.row_channels % 8 == 0 && plan.n_channels % 8 == 0 &&
               plan.groups % plan.warps_groups == 0,
           "groups side by side are whole eights", problem);
  }
  expect(plan.splits * plan.split_boxes >= plan.launch_boxes() &&
             (plan.splits - 1) * plan.split_boxes < plan.launch_boxes(),
         "every split has boxes, and every box a split", problem);
  const OrderedSumShape sums = plan.sum_shape();
  expect(sums.lanes <= plan.partials() && (sums.lanes == 1 || sums.lanes == 4 || sums.lanes == 8),
         "every lane has a slot to add", problem);
  expect(sums.lanes == 1 ? plan.partials() < 8 : (sums.lanes == 4) == (plan.gradient_elements() >= 131072),
         "many slots are shared by lanes, by fewer where there are many sums", problem);
  expect((sums.rows == 4) == (sums.lanes < 8 || plan.gradient_elements() >= 65536), "many sums are rows of a thread",
         problem);
  expect(plan.partial_bytes() <= kWorkspaceBytes || plan.splits == 1, "partial sums are bounded", problem);
  const int64_t positions = int64_t{plan.images} * plan.box[0] * plan.box[1] * plan.box[2];
  expect(plan.steps == ceil_div(positions, kGradStep), "steps cover the box", problem);
  expect(plan.segment_boxes == 1 || int64_t{plan.segment_boxes} * plan.steps * kGradStep <= 8192,
         "sums in the tensor cores are short", problem);
  // Of 32 bits four neighbouring rows begin in different banks, of 16 bits eight.
  expect(plan.grad.has_channel_rows() || plan.grad.pitch / kPieceBytes % 2 == 1, "the pitch of rows", problem);
}

}  // namespace convt3d::mma
