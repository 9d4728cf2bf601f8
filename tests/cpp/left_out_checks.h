// What plans of the wgmma engine leave out: zeros of lines that the next ones begin with, and offsets along the depth
// at which a tile reads nothing.
#pragma once

#include <cmath>
#include <cstdint>

#include "engines/wgmma/plan/plan.h"
#include "terms.h"

namespace convt3d {

// What a tap reads past a line's end is a zero of the input's, and so is what lies there: the next line's beginning or,
// behind the last one, the zeros of the panel.
inline void check_shared_zeros(const WgmmaPlan& plan, const Problem& problem) {
  if (plan.tile.zeros == 0) return;
  const WgmmaAxis& axis = plan.arrangement.axis[2];
  const int32_t pitch = plan.tile.halo[2];
  expect(plan.tile.count[2] == 1 && plan.tile.image_log == 0 && axis.fold == 1, "whole lines share zeros", problem);
  for (int outer = 0; outer < axis.outer; ++outer) {
    const WgmmaTaps& taps = axis.taps[outer];
    for (int j = 0; j < taps.count; ++j) {
      for (int32_t u = 0; u < axis.positions; ++u) {
        const int32_t source = u + taps.offset[j];
        const int32_t place = source - taps.low;
        expect(place < pitch + plan.tile.zeros, "a line's taps read no further than its zeros", problem);
        if (place < pitch) continue;
        expect(source >= axis.src_size && place - pitch + taps.low < 0, "shared zeros are zeros of both lines",
               problem);
      }
    }
  }
}

inline void check_left_out(const WgmmaPlan& plan, const Problem& problem) {
  const WgmmaAxis& axis = plan.arrangement.axis[0];
  int64_t all = 0;
  int64_t read = 0;
  for (int outer = 0; outer < axis.outer; ++outer) {
    const WgmmaTaps& taps = axis.taps[outer];
    for (int32_t tile = 0; tile < plan.tile.count[0]; ++tile) {
      const int32_t first = tile * plan.tile.size[0];
      const WgmmaUnreadOffsets unread(axis, taps, first, plan.tile.size[0]);
      all += taps.count;
      read += taps.count - unread.count();
      for (int j = 0; j < taps.count; ++j) {
        bool reads = false;
        for (int32_t u = first; u < first + plan.tile.size[0]; ++u) {
          const int32_t source = u * axis.fold + taps.offset[j];
          reads = reads || (source >= 0 && source < axis.src_size);
        }
        const bool is_left_out = j < unread.front || j >= taps.count - unread.back;
        expect(!(reads && is_left_out), "no offset that is read is left out", problem);
      }
      // Whole stages, and no step of an offset that is read.
      for (const int32_t depth_steps : {1, 3, 9}) {
        const int32_t steps = taps.count * depth_steps;
        const WgmmaSteps kept = steps_between(steps, depth_steps, unread.front, unread.back);
        expect(kept.begin % kWgmmaStageSlices == 0 && kept.begin <= unread.front * depth_steps &&
                   kept.end >= steps - unread.back * depth_steps && kept.end <= steps &&
                   (kept.end == steps || kept.end % kWgmmaStageSlices == 0),
               "the steps that are left have all that is read", problem);
      }
    }
  }
  const double share = all == 0 ? 1 : static_cast<double>(read) / static_cast<double>(all);
  expect(std::abs(read_share(plan.arrangement, plan.tile) - share) < 1e-9, "the share of what is read", problem);
  expect(!plan.pipelines.skips_unread ||
             (share < 1 && !plan.pipelines.resident_weights && plan.arrangement.summed_phases() == 1),
         "what is left out pays", problem);
}

}  // namespace convt3d
