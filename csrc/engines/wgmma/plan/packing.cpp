#include "engines/wgmma/plan/packing.h"

#include <algorithm>

#include "core/integer.h"

namespace convt3d {
namespace {

constexpr int64_t kMostThreads = 128 * 1024;  // that are of use

}  // namespace

WgmmaPacking plan_packing(const WgmmaPlan& plan, int element_bytes) {
  const WgmmaLoops& loops = plan.loops;
  WgmmaPacking packing{};
  int32_t fillers = 0;
  for (int loop = 0; loop < kWgmmaMaxLoops; ++loop) {
    const bool exists = loop < loops.count();
    packing.first_tap[loop] = static_cast<int16_t>(exists ? packing.taps : INT16_MAX);
    packing.first_filler[loop] = static_cast<int16_t>(exists ? fillers : INT16_MAX);
    if (!exists) continue;
    const int32_t stages = loops.first[loop + 1] - loops.first[loop];
    packing.taps += loops.steps[loop] / loops.tap_steps;
    fillers += stages * loops.stage_steps() - loops.steps[loop];
  }
  packing.entries = packing.taps + fillers;
  const int most_log = element_bytes == 4 ? 3 : 4;
  while (packing.warp_entries_log < most_log && 1 << packing.warp_entries_log < packing.entries) {
    ++packing.warp_entries_log;
  }
  const int64_t warps = ceil_div(packing.entries, int64_t{1} << packing.warp_entries_log);
  packing.by_warp_entries = make_divisor(warps);
  packing.by_m_tiles = make_divisor(plan.arrangement.m_tiles);
  packing.by_tap_steps = make_divisor(plan.panels.tap_steps);
  packing.by_outputs = make_divisor(plan.product.out_channels / plan.product.joined);
  packing.group_inputs = plan.product.in_channels / plan.product.joined;
  packing.steps = plan.panels.chunks() * plan.panels.tap_steps;
  const int64_t rows =
      plan.product.groups * plan.arrangement.m_tiles * kWgmmaTileRows * (warps << packing.warp_entries_log);
  const int64_t parts = std::clamp<int64_t>(kMostThreads / std::max<int64_t>(rows, 1), 1, packing.steps);
  packing.part_steps = static_cast<int32_t>(ceil_div(packing.steps, parts));
  packing.threads = rows * ceil_div(packing.steps, packing.part_steps);
  return packing;
}

}  // namespace convt3d
