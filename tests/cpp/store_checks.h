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
inline void check_first_columns(const Problem& problem, const WgmmaPlan& plan, int g) {
  const WgmmaStore& store = plan.store;
  const WgmmaTile& tile = plan.tile;
  std::set<int> begun;
  for (int column = 0; column < store.extent; ++column) {
    const WgmmaPosition position = tile.at(store.start[g] + column);
    if (!tile.is_output(position)) continue;
    const int segment = store.segment_of(tile, position) - store.first_segment[g];
    if (!begun.insert(segment).second) continue;
    const WgmmaPosition first = store.first_of(tile, g, segment);
    expect(first.d == position.d && first.h == position.h && first.w == position.w &&
               tile.number_of(first) == store.start[g] + column,
           "a segment begins with its first column", problem);
  }
  expect(static_cast<int>(begun.size()) == store.segments[g], "segments have columns", problem);
}

// Walks a warpgroup's columns as the epilogue does: every output is staged once, nothing is staged over a burst that
// was not handed over, and every segment leaves.
inline void check_staging(const Problem& problem, const WgmmaPlan& plan, int g) {
  const WgmmaStore& store = plan.store;
  const WgmmaTile& tile = plan.tile;
  const auto expect_staging = [&](bool condition, const char* what) { expect(condition, what, problem); };
  const int first = store.first_segment[g];
  const int rest = store.segments[g] - (store.part[g] >= 0 ? 1 : 0);
  std::map<int, int> burst_at;  // offset of a segment -> the burst in it that has not left
  std::map<int, int> staged;    // segment -> columns
  int left = 0;
  for (int i = 0; i * store.strip < store.extent; ++i) {
    const int begun = left + ((store.marks.open[g] >> i & 1) != 0 ? 1 : 0);
    for (int column = i * store.strip; column < std::min((i + 1) * store.strip, store.extent); ++column) {
      const WgmmaPosition position = tile.at(store.start[g] + column);
      if (!tile.is_output(position)) continue;
      const int segment = store.segment_of(tile, position) - first;
      expect_staging(segment >= 0 && segment < store.segments[g], "a column has a segment");
      ++staged[segment];
      const int offset = store.segment_offset(tile, g, segment);
      expect_staging(offset + store.segment_bytes <= store.warp_bytes, "the segment is in the warp's staging");
      if (segment == store.part[g]) {
        expect_staging(offset == store.halves * store.burst * store.box_bytes(), "a part has staging of its own");
        continue;
      }
      const int burst = store.in_bursts(g, segment) / store.burst;
      expect_staging(burst >= left && burst <= begun, "a column's burst has begun and not left");
      const auto found = burst_at.find(offset);
      expect_staging(
          found == burst_at.end() || found->second == burst || (found->second < left && found->second + 2 <= burst),
          "staging is free before it is used again");
      burst_at[offset] = burst;
    }
    if ((store.marks.end[g] >> i & 1) != 0) ++left;
  }
  expect_staging(rest <= 0 || left == (rest - 1) / store.burst, "all bursts but the last are marked");
  for (int segment = 0; store.box_lines() > 1 && segment < store.segments[g]; ++segment) {
    const int row = segment / store.line_segments;
    if (row % store.box_lines() == 0) continue;
    const int above = segment - store.line_segments;
    expect_staging(store.segment_offset(tile, g, segment) == store.segment_offset(tile, g, above) + store.segment_bytes,
                   "a box's lines follow one another");
    expect_staging((first + segment) / store.line_segments / tile.size[1] ==
                           (first + above) / store.line_segments / tile.size[1] &&
                       segment / store.burst == above / store.burst,
                   "a box lies in one depth and burst");
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

// The same of runs: each output is staged once, in its burst, where it overwrites no other, with the alignment that it
// has in the output.
inline void check_runs(const Problem& problem, const WgmmaPlan& plan, int element_bytes, int g) {
  const WgmmaStore& store = plan.store;
  const WgmmaTile& tile = plan.tile;
  const WgmmaRuns& runs = store.as_runs();
  const auto expect_runs = [&](bool condition, const char* what) { expect(condition, what, problem); };
  const int phases = store.column_bytes / element_bytes;
  const int row_outputs = plan.arrangement.axis[2].dst_size;
  const int first = store.first_segment[g];
  const int strips = (store.extent + store.strip - 1) / store.strip;
  uint32_t end = store.marks.end[g];
  int staged = 0;
  int step = 0;
  for (int burst = 0; step <= strips; ++burst) {
    std::map<int, int64_t> staged_at;  // byte of the channel's run -> output of the tile's depth
    for (; step < strips; ++step) {
      for (int column = step * store.strip; column < std::min((step + 1) * store.strip, store.extent); ++column) {
        const WgmmaPosition position = tile.at(store.start[g] + column);
        if (!tile.is_output(position)) continue;
        const int segment = store.segment_of(tile, position) - first;
        if (((store.burst_of(tile, g, segment) ^ burst) & 1) != 0) continue;
        expect_runs(store.burst_of(tile, g, segment) == burst, "a column's burst has begun and not left");
        const int after = segment + store.segments_to_next(tile, g, segment);
        expect_runs(store.burst_of(tile, g, after - 1) == burst && after <= store.segments[g] &&
                        (after == store.segments[g] || store.burst_of(tile, g, after) == burst + 1),
                    "a burst ends where the next begins");
        ++staged;
        for (int row = 0; row < runs.lines; ++row) {
          for (int phase = 0; phase < phases; ++phase) {
            const int output = position.w * phases + phase;
            if (tile.count[2] == 1 && output >= row_outputs) continue;
            const int byte = store.segment_offset(tile, g, segment) + position.w % store.columns * store.column_bytes +
                             row * runs.line_step + phase * element_bytes;
            const int64_t at = int64_t{position.h} * (runs.lines == 2 ? 2 : plan.arrangement.axis[1].stride) + row;
            expect_runs(staged_at.emplace(byte, at * row_outputs + output).second, "a byte holds one output");
          }
        }
      }
      if ((end >> step & 1) != 0) break;
    }
    if (step == strips)
      ++step;  // the last burst
    else if ((store.marks.open[g] >> step & 1) == 0)
      ++step;
    end &= end - 1;
    for (const auto& [byte, output] : staged_at) {
      expect_runs(byte + element_bytes + 15 <= store.pitch, "a channel's outputs are in its part of the staging");
      expect_runs(byte / element_bytes < 1 << kWgmmaRunOffsetBits, "the table of columns can name the byte");
      const auto& [first_byte, first_output] = *staged_at.begin();
      const int64_t apart = (output - first_output) * element_bytes - (byte - first_byte);
      expect_runs(apart % 16 == 0 && (apart == 0 || !runs.joined_lines), "an output is aligned as in memory");
    }
  }
  int outputs = 0;
  for (int column = 0; column < store.extent; ++column) {
    outputs += tile.is_output(tile.at(store.start[g] + column));
  }
  expect_runs(end == 0 && staged == outputs, "all outputs are staged");
  expect_runs(
      kWgmmaConsumerWarps * store.warp_bytes <= plan.memory.begin[kWeightPart] - plan.memory.begin[kStagingPart] &&
          plan.arrangement.slab_channels() * store.pitch <= store.warp_bytes && store.pitch % 16 == 0,
      "the channels fit");
}

// Of outputs that leave from the registers: every one is in one pair, and what a warp keeps of them fits.
inline void check_pairs(const Problem& problem, const WgmmaPlan& plan, int element_bytes, int g) {
  const WgmmaStore& store = plan.store;
  const WgmmaTile& tile = plan.tile;
  std::vector<int> pairs(static_cast<size_t>(store.extent) + 1, 0);
  int kept = 0;
  for (int number = 0; number < store.extent; ++number) {
    const int positions = store.pair_positions(tile, g, number);
    kept += positions > 0 ? 1 : 0;
    for (int i = 0; i < positions; ++i) ++pairs[static_cast<size_t>(number) + i];
    const WgmmaPosition at = tile.at(store.start[g] + number);
    expect(pairs[static_cast<size_t>(number)] == (tile.is_output(at) ? 1 : 0), "an output is in one pair", problem);
    expect(positions < 2 || (at.w % 2 == 0 && at.w + 1 < tile.size[2]), "pairs are neighbours", problem);
  }
  expect(pairs.back() == 0, "pairs are the warpgroup's own", problem);
  expect(!plan.store.phase_pairs || kWgmmaConsumerWarps * kept * kWgmmaKeptElements * element_bytes <=
                                        plan.memory.begin[kWeightPart] - plan.memory.begin[kStagingPart],
         "what is kept fits", problem);
}

}  // namespace convt3d
