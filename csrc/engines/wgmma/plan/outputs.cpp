#include "engines/wgmma/plan/outputs.h"

#include <algorithm>

namespace convt3d {

WgmmaOutputs wgmma_outputs(const WgmmaPlan& plan) {
  const WgmmaTile& tile = plan.tile;
  const auto& axis = plan.arrangement.axis;
  static_assert(kWgmmaOutputWords * 32 >= kWgmmaInstructions[0].n);
  WgmmaOutputs outputs{};
  for (int warpgroup = 0; warpgroup < 2; ++warpgroup) {
    for (int32_t column = 0; column < std::min(plan.store.extent, tile.instruction.n); ++column) {
      if (!tile.is_output(tile.at(plan.store.start[warpgroup] + column))) continue;
      outputs.columns[warpgroup][column / 32] |= 1u << column % 32;
    }
  }
  for (int i = 0; i < 3; ++i) outputs.by_size[i] = make_divisor(tile.size[i]);
  const auto divides = [&](std::size_t i) { return axis[i].dst_size % axis[i].stride == 0; };
  outputs.alike = (!plan.arrangement.both_widths() || divides(2)) && (!plan.arrangement.height_sets() || divides(1));
  return outputs;
}

}  // namespace convt3d
