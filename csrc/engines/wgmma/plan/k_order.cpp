#include "engines/wgmma/plan/k_order.h"

#include "core/integer.h"

namespace convt3d {

std::optional<WgmmaLoops> make_loops(const WgmmaProduct& product, const WgmmaArrangement& arrangement,
                                     const WgmmaPanels& panels) {
  WgmmaLoops loops{};
  loops.chunks = panels.chunks();
  loops.phases = arrangement.phases;
  loops.sets = arrangement.sets();
  loops.terms = product.terms;
  loops.tap_steps = panels.tap_steps;
  for (int loop = 0; loop < loops.count(); ++loop) {
    const WgmmaPhase phase = arrangement.phase(loop / loops.sets, loop % loops.sets);
    const auto& axis = arrangement.axis;
    const int taps =
        axis[0].taps[phase.depth].count * axis[1].taps[phase.height].count * axis[2].taps[phase.width].count;
    loops.steps[loop] = taps * panels.tap_steps;
    loops.first[loop + 1] = loops.first[loop] + static_cast<int32_t>(ceil_div(loops.steps[loop], loops.stage_steps()));
  }
  if (loops.first[loops.count()] > kWgmmaMaxLoopStages) return std::nullopt;
  return loops;
}

}  // namespace convt3d
