// The depthwise engine's plans against the operator's definition.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "engines/depthwise/plan.h"
#include "terms.h"

namespace convt3d {

// What the depthwise engine visits along every axis of a cube, by the residues' tables and by the taps that its kernels
// know.
inline void check_depthwise(const Problem& any, int in_channels, int out_channels) {
  Problem problem = any;
  problem.in_channels = problem.groups * in_channels;
  problem.out_channels = problem.groups * out_channels;
  for (int i = 1; i < 3; ++i) {
    problem.input_size[i] = any.input_size[0];
    problem.kernel_size[i] = any.kernel_size[0];
    problem.stride[i] = any.stride[0];
    problem.padding[i] = any.padding[0];
    problem.output_padding[i] = any.output_padding[0];
    problem.dilation[i] = any.dilation[0];
  }
  const std::set<Term> expected = defined_terms(problem);
  const int size = static_cast<int>(problem.output_size(0));
  for (const int element_bytes : {2, 4, 8}) {
    for (const bool channels_last : {false, true}) {
      const std::optional<DepthwisePlan> made = plan_depthwise_kernel(problem, element_bytes, channels_last, true);
      const bool is_tiny = in_channels * out_channels <= kDepthwiseMaxProducts;
      const bool has_room = (in_channels * problem.taps() + 1) * 48 + kDepthwiseRowStageBytes <= 48 * 1024;
      expect(made ? is_tiny : !is_tiny || !has_room, "the depthwise engine takes tiny groups and no others", problem);
      if (!made) continue;
      const DepthwisePlan& plan = *made;
      std::vector<Term> visited;
      for (int o = 0; o < size; ++o) {
        const DepthwiseAxis& axis = plan.axis[0];
        const int u = axis.by_stride.quotient(o);
        const DepthwiseResidue& residue = axis.residue[axis.by_stride.remainder(o, u)];
        for (int j = 0; j < residue.tap_count; ++j) {
          const int source = u + residue.first_offset + j * axis.offset_step;
          if (source >= 0 && source < axis.src_size)
            visited.push_back({source, residue.first_tap + j * axis.tap_step, o});
        }
      }
      std::set<Term> unique(visited.begin(), visited.end());
      expect(unique.size() == visited.size() && unique == expected, "the depthwise engine visits the defined terms",
             problem);
      with_width_taps(plan.width, [&](auto taps) {
        std::set<Term> known;
        for (int o = 0; o < size; ++o) {
          for (int tap = 0; tap < taps.kTaps; ++tap) {
            if (!taps.meets(o % taps.kStride, tap)) continue;
            const int offset = taps.offset(o % taps.kStride, tap);
            expect(offset >= taps.kLow && offset <= taps.kHigh, "offsets are inside the window", problem);
            expect(taps.tap(o % taps.kStride, offset) == tap, "an offset knows its tap", problem);
            const int source = o / taps.kStride + offset + plan.shift[2];
            if (source >= 0 && source < problem.input_size[2]) known.insert({source, tap, o});
          }
        }
        expect(known == expected, "the known taps are the defined terms", problem);
      });
      const int64_t vector = depthwise_vector(element_bytes);
      const int64_t covered = int64_t{plan.lane_tiles} * plan.lanes;
      expect(int64_t{plan.item_tiles} * plan.slots * plan.steps >= plan.items &&
                 plan.slots * plan.lanes == kDepthwiseThreads,
             "tiles cover the items", problem);
      const bool any_taps = plan.width == DepthwiseWidth::kAny;
      if (plan.channels()) {
        const int64_t run = depthwise_run(element_bytes, plan.pairs());
        expect(covered * kDepthwiseChannels >= problem.out_channels, "lanes cover the channels", problem);
        expect(plan.units[2] * plan.walk * run * (any_taps ? 1 : problem.stride[2]) >= size,
               "units cover the width, channels contiguous", problem);
      } else {
        expect(covered * (any_taps ? 1 : vector) >= size, "lanes cover the width", problem);
      }
      const int rows = plan.pairs() ? 2 : any_taps && !plan.channels() ? kDepthwiseRows : 1;
      expect(plan.units[1] * rows >= size && plan.units[0] * (plan.pairs() ? 2 : 1) >= size,
             "units cover the height and the depth", problem);
      expect(plan.shared_bytes <= 48 * 1024, "shared memory suffices", problem);
    }
  }
}

}  // namespace convt3d
