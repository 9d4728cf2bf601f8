#include "check/traits.h"

#include <algorithm>

namespace check {
namespace {

enum class Load { kThreads, kVectors, kCopy, kRows, kBoxes, kPlanes };

// How the launch will load the input's tiles, as far as its strides say.
Load load_of(const Case& item, const convt3d::HaloPlan& plan) {
  const Size5 size = item.first_size();
  const Place place = place_of(size, item.layout, *item.first);
  const int64_t bytes = convt3d::element_size(item.data_type());
  const bool aligned = place.first * bytes % 16 == 0;
  const auto whole = [&](std::size_t axis) { return place.stride[axis] * bytes % 16 == 0; };
  if (place.stride[4] == 1 && aligned && whole(3)) {
    if (plan.row_log > 0) return Load::kRows;
    if (plan.box_images > 0) return Load::kPlanes;
    if (plan.transposes()) return Load::kBoxes;
  }
  const bool pieces = place.stride[1] == 1 && aligned && whole(4) && plan.in_channels * bytes % 16 == 0;
  if (pieces && plan.in_channels * bytes % plan.row_bytes == 0) return Load::kCopy;
  return pieces ? Load::kVectors : Load::kThreads;
}

}  // namespace

std::vector<uint64_t> traits_of(const Case& item, const convt3d::HaloPlan& plan) {
  const convt3d::HaloStaging& staging = plan.staging;
  const auto load = static_cast<uint64_t>(load_of(item, plan));
  const auto way = static_cast<uint64_t>(staging.way);
  const bool channels_last = item.result_layout() == Layout::kNdhwc;
  const int values[] = {static_cast<int>(item.type),
                        static_cast<int>(load),
                        static_cast<int>(way),
                        plan.n,
                        plan.sets,
                        int{plan.pair_rows},
                        int{plan.channel_sets()},
                        plan.axis[0].fold + 2 * plan.axis[1].fold,
                        int{plan.phase_halos},
                        std::min(plan.image_log, 1) + int{plan.batch % (int64_t{1} << plan.image_log) > 0},
                        int{plan.phase_pairs},
                        int{staging.part[0] >= 0 || staging.part[1] >= 0},
                        plan.box_images,
                        int{plan.row_log},
                        int{plan.chunks() > 1},
                        int{plan.resident_weights},
                        int{plan.alternate},
                        std::min(plan.slots, 2),
                        int{plan.splits > 1},
                        plan.joined,
                        int{plan.m_tiles > 1},
                        int{channels_last},
                        int{item.relu},
                        static_cast<int>(plan.in_channels % 8)};
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
