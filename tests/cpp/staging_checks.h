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
inline void check_first_columns(const Problem& problem, const HaloStaging& staging, int g) {
  std::set<int> begun;
  for (int column = 0; column < staging.extent; ++column) {
    const HaloPosition position = staging.at(staging.start[g] + column);
    if (!staging.is_output(position)) continue;
    const int segment = staging.segment_of(position) - staging.first_segment[g];
    if (!begun.insert(segment).second) continue;
    const HaloPosition first = staging.first_of(g, segment);
    expect(first.d == position.d && first.h == position.h && first.w == position.w &&
               staging.number_of(first) == staging.start[g] + column,
           "a segment begins with its first column", problem);
  }
  expect(static_cast<int>(begun.size()) == staging.segments[g], "segments have columns", problem);
}

// Walks a warpgroup's columns as the epilogue does: every output is staged once, nothing is staged over a batch that
// was not handed over, and every segment leaves.
inline void check_staging(const Problem& problem, const HaloPlan& plan, int g) {
  const HaloStaging& staging = plan.staging;
  const auto expect_staging = [&](bool condition, const char* what) { expect(condition, what, problem); };
  const int first = staging.first_segment[g];
  const int batched = staging.segments[g] - (staging.part[g] >= 0 ? 1 : 0);
  std::map<int, int> batch_at;  // offset of a segment's place -> the batch in it that has not left
  std::map<int, int> staged;    // segment -> columns
  int left = 0;
  for (int i = 0; i * staging.step < staging.extent; ++i) {
    const int begun = left + ((staging.open[g] >> i & 1) != 0 ? 1 : 0);
    for (int column = i * staging.step; column < std::min((i + 1) * staging.step, staging.extent); ++column) {
      const HaloPosition position = staging.at(staging.start[g] + column);
      if (!staging.is_output(position)) continue;
      const int segment = staging.segment_of(position) - first;
      expect_staging(segment >= 0 && segment < staging.segments[g], "a column has a segment");
      ++staged[segment];
      const int offset = staging.segment_offset(g, segment);
      expect_staging(offset + staging.segment_bytes <= staging.warp_bytes, "the segment is in the warp's staging");
      if (segment == staging.part[g]) {
        expect_staging(offset == staging.halves * staging.batch * staging.box_bytes, "a part has its own place");
        continue;
      }
      const int batch = staging.batched(g, segment) / staging.batch;
      expect_staging(batch >= left && batch <= begun, "a column's batch has begun and not left");
      const auto found = batch_at.find(offset);
      expect_staging(
          found == batch_at.end() || found->second == batch || (found->second < left && found->second + 2 <= batch),
          "a place is free before it is used again");
      batch_at[offset] = batch;
    }
    if ((staging.end[g] >> i & 1) != 0) ++left;
  }
  expect_staging(batched <= 0 || left == (batched - 1) / staging.batch, "all batches but the last are marked");
  for (int segment = 0; staging.box_rows > 1 && segment < staging.segments[g]; ++segment) {
    const int row = segment / staging.row_segments;
    if (row % staging.box_rows == 0) continue;
    const int above = segment - staging.row_segments;
    expect_staging(staging.segment_offset(g, segment) == staging.segment_offset(g, above) + staging.segment_bytes,
                   "a box's rows follow one another");
    expect_staging((first + segment) / staging.row_segments / staging.tile[1] ==
                           (first + above) / staging.row_segments / staging.tile[1] &&
                       segment / staging.batch == above / staging.batch,
                   "a box lies in one depth and batch");
  }
  int columns = 0;
  for (const auto& [segment, count] : staged) {
    expect_staging(count <= staging.columns, "a segment holds its columns");
    columns += count;
  }
  int outputs = 0;
  for (int column = 0; column < staging.extent; ++column) {
    outputs += staging.is_output(staging.at(staging.start[g] + column));
  }
  expect_staging(columns == outputs && static_cast<int>(staged.size()) == staging.segments[g],
                 "segments hold all outputs");
}

// The same of runs: each output is staged once, in its batch, where it overwrites no other, with the alignment that it
// has in the output.
inline void check_runs(const Problem& problem, const HaloPlan& plan, int element_bytes, int g) {
  const HaloStaging& staging = plan.staging;
  const auto expect_runs = [&](bool condition, const char* what) { expect(condition, what, problem); };
  const int phases = staging.column_bytes / element_bytes;
  const int row_outputs = static_cast<int>(problem.output_size(2));
  const int first = staging.first_segment[g];
  const int steps = (staging.extent + staging.step - 1) / staging.step;
  uint32_t end = staging.end[g];
  int staged = 0;
  int step = 0;
  for (int batch = 0; step <= steps; ++batch) {
    std::map<int, int64_t> places;  // byte of the channel's run -> output of the tile's depth
    for (; step < steps; ++step) {
      for (int column = step * staging.step; column < std::min((step + 1) * staging.step, staging.extent); ++column) {
        const HaloPosition position = staging.at(staging.start[g] + column);
        if (!staging.is_output(position)) continue;
        const int segment = staging.segment_of(position) - first;
        if (((staging.batch_of(g, segment) ^ batch) & 1) != 0) continue;
        expect_runs(staging.batch_of(g, segment) == batch, "a column's batch has begun and not left");
        const int after = segment + staging.segments_to_next(g, segment);
        expect_runs(staging.batch_of(g, after - 1) == batch && after <= staging.segments[g] &&
                        (after == staging.segments[g] || staging.batch_of(g, after) == batch + 1),
                    "a batch ends where the next begins");
        ++staged;
        for (int row = 0; row < staging.rows; ++row) {
          for (int phase = 0; phase < phases; ++phase) {
            const int output = position.w * phases + phase;
            if (plan.tiles[2] == 1 && output >= row_outputs) continue;
            const int place = staging.segment_offset(g, segment) + position.w % staging.columns * staging.column_bytes +
                              row * staging.row_step + phase * element_bytes;
            const int64_t at = int64_t{position.h} * (staging.rows == 2 ? 2 : plan.axis[1].stride) + row;
            expect_runs(places.emplace(place, at * row_outputs + output).second, "a place holds one output");
          }
        }
      }
      if ((end >> step & 1) != 0) break;
    }
    if (step == steps)
      ++step;  // the last batch
    else if ((staging.open[g] >> step & 1) == 0)
      ++step;
    end &= end - 1;
    for (const auto& [place, output] : places) {
      expect_runs(place + element_bytes + 15 <= staging.pitch, "a channel's place is in its part of the staging");
      expect_runs(place / element_bytes < 1 << kHaloRunOffsetBits, "the table of columns can name the place");
      const auto& [first_place, first_output] = *places.begin();
      const int64_t apart = (output - first_output) * element_bytes - (place - first_place);
      expect_runs(apart % 16 == 0 && (apart == 0 || !staging.joined_rows), "a place is aligned as its output");
    }
  }
  int outputs = 0;
  for (int column = 0; column < staging.extent; ++column) {
    outputs += staging.is_output(staging.at(staging.start[g] + column));
  }
  expect_runs(end == 0 && staged == outputs, "all outputs are staged");
  expect_runs(kHaloMultiplyWarps * staging.warp_bytes <= plan.memory.ring - plan.memory.staging &&
                  plan.slab_channels * staging.pitch <= staging.warp_bytes && staging.pitch % 16 == 0,
              "the channels fit");
}

// Of outputs that leave from the registers: every one is in one pair, and what a warp keeps of them fits.
inline void check_pairs(const Problem& problem, const HaloPlan& plan, int element_bytes, int g) {
  const HaloStaging& staging = plan.staging;
  std::vector<int> pairs(static_cast<size_t>(staging.extent) + 1, 0);
  int kept = 0;
  for (int place = 0; place < staging.extent; ++place) {
    const int positions = staging.pair_positions(g, place);
    kept += positions > 0 ? 1 : 0;
    for (int i = 0; i < positions; ++i) ++pairs[static_cast<size_t>(place) + i];
    const HaloPosition at = staging.at(staging.start[g] + place);
    expect(pairs[static_cast<size_t>(place)] == (staging.is_output(at) ? 1 : 0), "an output is in one pair", problem);
    expect(positions < 2 || (at.w % 2 == 0 && at.w + 1 < plan.tile[2]), "pairs are neighbours", problem);
  }
  expect(pairs.back() == 0, "pairs are the warpgroup's own", problem);
  expect(!plan.phase_pairs ||
             kHaloMultiplyWarps * kept * kHaloKeptElements * element_bytes <= plan.memory.ring - plan.memory.staging,
         "what is kept fits", problem);
}

}  // namespace convt3d
