#include "engines/mma/weight_grad/splits.h"

#include <algorithm>

#include "core/integer.h"
#include "core/segments.h"

namespace convt3d::mma {
namespace {

constexpr int64_t kMostWorkspaceBytes = int64_t{64} << 20;

}  // namespace

void choose_splits(WeightGradPlan& plan, const DeviceTraits& device,
                   const std::function<void(WeightGradPlan&)>& price) {
  const int64_t boxes = plan.launch_boxes();
  const int64_t most = std::max<int64_t>(1, kMostWorkspaceBytes / (4 * plan.warps_k * plan.gradient_elements()));
  WeightGradPlan best = plan;
  best.cost_ms = -1;
  for (const int64_t waves : {1, 2, 3}) {
    const int64_t wanted = std::clamp<int64_t>(waves * device.multiprocessors / plan.tiles(), 1, std::min(most, boxes));
    plan.split_boxes = ceil_div(boxes, wanted);
    plan.splits = ceil_div(boxes, plan.split_boxes);
    const int64_t positions = int64_t{plan.steps} * kGradStep * plan.halves();
    const int64_t segment = segment_positions(plan.terms, kGradStep, positions * plan.split_boxes);
    plan.segment_boxes = static_cast<int32_t>(std::max<int64_t>(1, segment / positions));
    price(plan);
    if (best.cost_ms < 0 || plan.cost_ms < best.cost_ms) best = plan;
  }
  plan = best;
}

}  // namespace convt3d::mma
