// How the packing of a wgmma plan's weight is shared out.
#pragma once

#include <algorithm>

#include "engines/wgmma/plan/packing.h"
#include "terms.h"

namespace convt3d {

// Threads pack each row of the packed weight once: of all taps, and of what fills last stages up.
inline void check_packing(const Problem& problem, const WgmmaPlan& plan, int element_bytes) {
  const WgmmaPacking packing = plan_packing(plan, element_bytes);
  const WgmmaLoops& loops = plan.loops;
  const int32_t fillers = packing.entries - packing.taps;
  expect(packing.taps * loops.tap_steps + fillers == loops.first[loops.count()] * loops.stage_steps(),
         "taps and fillers are the stages of all loops", problem);
  for (int loop = 0; loop < kWgmmaMaxLoops; ++loop) {
    const bool last = loop + 1 >= loops.count();
    if (loop >= loops.count()) {
      expect(packing.first_tap[loop] > packing.taps && packing.first_filler[loop] > fillers, "no more loops", problem);
      continue;
    }
    const int32_t taps = (last ? packing.taps : packing.first_tap[loop + 1]) - packing.first_tap[loop];
    const int32_t filled = (last ? fillers : packing.first_filler[loop + 1]) - packing.first_filler[loop];
    expect(taps * loops.tap_steps == loops.steps[loop] && filled >= 0 && filled < loops.stage_steps(),
           "a loop has its taps, and less than a stage that fills the last one", problem);
  }
  const auto warps = static_cast<int32_t>(packing.by_warp_entries.value);
  const int32_t warp_entries = 1 << packing.warp_entries_log;
  expect(warp_entries * element_bytes <= 32 && warps * warp_entries >= packing.entries &&
             (warps - 1) * warp_entries < packing.entries,
         "a warp reads a sector of taps, and warps have all of them", problem);
  const int64_t rows = plan.product.groups * int64_t{plan.arrangement.m_tiles} * kWgmmaTileRows * warps * warp_entries;
  const int64_t parts = packing.threads / rows;
  expect(packing.threads % rows == 0 && packing.steps == plan.panels.chunks() * loops.tap_steps &&
             parts * packing.part_steps >= packing.steps && (parts - 1) * packing.part_steps < packing.steps,
         "parts cover the steps and none is empty", problem);
  expect(packing.threads <= std::max<int64_t>(rows, 128 * 1024), "no more threads than are of use", problem);
}

}  // namespace convt3d
