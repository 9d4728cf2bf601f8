// How the tensor-core engine's outputs leave, walked as its epilogue does.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "engines/wgmma/plan/plan.h"
#include "terms.h"

namespace convt3d {

// A segment's first column is the first of the warpgroup's that falls into it.
inline void check_first_columns(const Problem& problem, const HaloPlan& plan, int g) {
  const HaloStore& store = plan.store;
  const HaloTile& tile = plan.tile;
  std::set<int> begun;
  for (int column = 0; column < store.extent; ++column) {
    const HaloPosition position = tile.at(store.start[g] + column);
    if (!tile.is_output(position)) continue;
    const int segment = store.segment_of(tile, position) - store.first_segment[g];
    if (!begun.insert(segment).second) continue;
    const HaloPosition first = store.first_of(tile, g, segment);
    expect(first.d == position.d && first.h == position.h && first.w == position.w &&
               tile.number_of(first) == store.start[g] + column,
           "a segment begins with its first column", problem);
  }
  expect(static_cast<int>(begun.size()) == store.segments[g], "segments have columns", problem);
}

// Walks a warpgroup's columns as the epilogue does: every output is staged once, nothing is staged over a batch that
// was not handed over, and every segment leaves.
inline void check_staging(const Problem& problem, const HaloPlan& plan, int g) {
  const HaloStore& store = plan.store;
  const HaloTile& tile = plan.tile;
  const auto expect_staging = [&](bool condition, const char* what) { expect(condition, what, problem); };
  const int first = store.first_segment[g];
  const int batched = store.segments[g] - (store.part[g] >= 0 ? 1 : 0);
  std::map<int, int> batch_at;  // offset of a segment's place -> the batch in it that has not left
  std::map<int, int> staged;    // segment -> columns
  int left = 0;
  for (int i = 0; i * store.strip < store.extent; ++i) {
    const int begun = left + ((store.open[g] >> i & 1) != 0 ? 1 : 0);
    for (int column = i * store.strip; column < std::min((i + 1) * store.strip, store.extent); ++column) {
      const HaloPosition position = tile.at(store.start[g] + column);
      if (!tile.is_output(position)) continue;
      const int segment = store.segment_of(tile, position) - first;
      expect_staging(segment >= 0 && segment < store.segments[g], "a column has a segment");
      ++staged[segment];
      const int offset = store.segment_offset(tile, g, segment);
      expect_staging(offset + store.segment_bytes <= store.warp_bytes, "the segment is in the warp's staging");
      if (segment == store.part[g]) {
        expect_staging(offset == store.halves * store.batch * store.box_bytes, "a part has its own place");
        continue;
      }
      const int batch = store.batched(g, segment) / store.batch;
      expect_staging(batch >= left && batch <= begun, "a column's batch has begun and not left");
      const auto found = batch_at.find(offset);
      expect_staging(
          found == batch_at.end() || found->second == batch || (found->second < left && found->second + 2 <= batch),
          "a place is free before it is used again");
      batch_at[offset] = batch;
    }
    if ((store.end[g] >> i & 1) != 0) ++left;
  }
  expect_staging(batched <= 0 || left == (batched - 1) / store.batch, "all batches but the last are marked");
  for (int segment = 0; store.box_lines > 1 && segment < store.segments[g]; ++segment) {
    const int row = segment / store.line_segments;
    if (row % store.box_lines == 0) continue;
    const int above = segment - store.line_segments;
    expect_staging(store.segment_offset(tile, g, segment) == store.segment_offset(tile, g, above) + store.segment_bytes,
                   "a box's lines follow one another");
    expect_staging((first + segment) / store.line_segments / tile.size[1] ==
                           (first + above) / store.line_segments / tile.size[1] &&
                       segment / store.batch == above / store.batch,
                   "a box lies in one depth and batch");
  }
  int columns = 0;
  for (const auto& [segment, count] : staged) {
    expect_staging(count <= store.columns, "a segment holds its columns");
    columns += count;
  }
  int outputs = 0;
  for (int column = 0; column < store.extent; ++column) {
    outputs += tile.is_output(tile.at(store.start[g] + column));
  }
  expect_staging(columns == outputs && static_cast<int>(staged.size()) == store.segments[g],
                 "segments hold all outputs");
}

// The same of runs: each output is staged once, in its batch, where it overwrites no other, with the alignment that it
// has in the output.
inline void check_runs(const Problem& problem, const HaloPlan& plan, int element_bytes, int g) {
  const HaloStore& store = plan.store;
  const HaloTile& tile = plan.tile;
  const auto expect_runs = [&](bool condition, const char* what) { expect(condition, what, problem); };
  const int phases = store.column_bytes / element_bytes;
  const int row_outputs = static_cast<int>(problem.output_size(2));
  const int first = store.first_segment[g];
  const int strips = (store.extent + store.strip - 1) / store.strip;
  uint32_t end = store.end[g];
  int staged = 0;
  int step = 0;
  for (int batch = 0; step <= strips; ++batch) {
    std::map<int, int64_t> places;  // byte of the channel's run -> output of the tile's depth
    for (; step < strips; ++step) {
      for (int column = step * store.strip; column < std::min((step + 1) * store.strip, store.extent); ++column) {
        const HaloPosition position = tile.at(store.start[g] + column);
        if (!tile.is_output(position)) continue;
        const int segment = store.segment_of(tile, position) - first;
        if (((store.batch_of(tile, g, segment) ^ batch) & 1) != 0) continue;
        expect_runs(store.batch_of(tile, g, segment) == batch, "a column's batch has begun and not left");
        const int after = segment + store.segments_to_next(tile, g, segment);
        expect_runs(store.batch_of(tile, g, after - 1) == batch && after <= store.segments[g] &&
                        (after == store.segments[g] || store.batch_of(tile, g, after) == batch + 1),
                    "a batch ends where the next begins");
        ++staged;
        for (int row = 0; row < store.lines; ++row) {
          for (int phase = 0; phase < phases; ++phase) {
            const int output = position.w * phases + phase;
            if (tile.count[2] == 1 && output >= row_outputs) continue;
            const int place = store.segment_offset(tile, g, segment) + position.w % store.columns * store.column_bytes +
                              row * store.line_step + phase * element_bytes;
            const int64_t at = int64_t{position.h} * (store.lines == 2 ? 2 : plan.arrangement.axis[1].stride) + row;
            expect_runs(places.emplace(place, at * row_outputs + output).second, "a place holds one output");
          }
        }
      }
      if ((end >> step & 1) != 0) break;
    }
    if (step == strips)
      ++step;  // the last batch
    else if ((store.open[g] >> step & 1) == 0)
      ++step;
    end &= end - 1;
    for (const auto& [place, output] : places) {
      expect_runs(place + element_bytes + 15 <= store.pitch, "a channel's place is in its part of the staging");
      expect_runs(place / element_bytes < 1 << kHaloRunOffsetBits, "the table of columns can name the place");
      const auto& [first_place, first_output] = *places.begin();
      const int64_t apart = (output - first_output) * element_bytes - (place - first_place);
      expect_runs(apart % 16 == 0 && (apart == 0 || !store.joined_lines), "a place is aligned as its output");
    }
  }
  int outputs = 0;
  for (int column = 0; column < store.extent; ++column) {
    outputs += tile.is_output(tile.at(store.start[g] + column));
  }
  expect_runs(end == 0 && staged == outputs, "all outputs are staged");
  expect_runs(
      kHaloConsumerWarps * store.warp_bytes <= plan.memory.begin[kWeightPart] - plan.memory.begin[kStagingPart] &&
          plan.arrangement.slab_channels() * store.pitch <= store.warp_bytes && store.pitch % 16 == 0,
      "the channels fit");
}

// Of outputs that leave from the registers: every one is in one pair, and what a warp keeps of them fits.
inline void check_pairs(const Problem& problem, const HaloPlan& plan, int element_bytes, int g) {
  const HaloStore& store = plan.store;
  const HaloTile& tile = plan.tile;
  std::vector<int> pairs(static_cast<size_t>(store.extent) + 1, 0);
  int kept = 0;
  for (int place = 0; place < store.extent; ++place) {
    const int positions = store.pair_positions(tile, g, place);
    kept += positions > 0 ? 1 : 0;
    for (int i = 0; i < positions; ++i) ++pairs[static_cast<size_t>(place) + i];
    const HaloPosition at = tile.at(store.start[g] + place);
    expect(pairs[static_cast<size_t>(place)] == (tile.is_output(at) ? 1 : 0), "an output is in one pair", problem);
    expect(positions < 2 || (at.w % 2 == 0 && at.w + 1 < tile.size[2]), "pairs are neighbours", problem);
  }
  expect(pairs.back() == 0, "pairs are the warpgroup's own", problem);
  expect(!plan.store.phase_pairs || kHaloConsumerWarps * kept * kHaloKeptElements * element_bytes <=
                                        plan.memory.begin[kWeightPart] - plan.memory.begin[kStagingPart],
         "what is kept fits", problem);
}

}  // namespace convt3d
