#include "check/traits.h"

#include <algorithm>

namespace check {
std::vector<uint64_t> traits_of(const Case& item, const convt3d::WgmmaPlan& plan) {
  const convt3d::WgmmaArrangement& arrangement = plan.arrangement;
  const convt3d::WgmmaTile& tile = plan.tile;
  const convt3d::WgmmaStore& store = plan.store;
  const auto load = static_cast<uint64_t>(plan.load.way());
  const auto way = static_cast<uint64_t>(store.way());
  const int values[] = {static_cast<int>(item.type),
                        static_cast<int>(load),
                        static_cast<int>(way),
                        tile.instruction.n,
                        static_cast<int>(arrangement.form),
                        arrangement.axis[0].fold + 2 * arrangement.axis[1].fold,
                        int{arrangement.phase_halos},
                        std::min(tile.image_log, 1) + int{plan.product.images % tile.images() > 0},
                        int{store.phase_pairs},
                        int{store.part[0] >= 0 || store.part[1] >= 0},
                        plan.load.plane_boxes() ? plan.load.as_plane_boxes().images : 0,
                        plan.load.n_major() ? plan.load.as_n_major().line_log : 0,
                        int{plan.panels.chunks() > 1},
                        int{plan.pipelines.resident_weights},
                        int{plan.pipelines.ping_pong},
                        std::min(plan.pipelines.tile_stages, 2),
                        int{tile.splits > 1},
                        plan.product.joined,
                        int{arrangement.m_tiles > 1},
                        int{store.channels_contiguous},
                        int{item.relu},
                        static_cast<int>(plan.product.in_channels % 8)};
  std::vector<uint64_t> traits;
  uint64_t number = 0;
  for (const int value : values) {
    const uint64_t trait = ++number << 32 | static_cast<uint32_t>(value);
    traits.push_back(trait);
    traits.push_back(trait | (load + 1) << 40);
    traits.push_back(trait | (way + 1) << 48);
  }
  return traits;
}

}  // namespace check
