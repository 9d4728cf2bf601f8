#include "planning/forward_plan.h"

namespace convt3d {

ForwardPlan choose_forward(const Problem& problem, DataType dtype, Float32Mode mode, bool channels_last,
                           const DeviceTraits& device) {
  ForwardPlan plan{};
  plan.depthwise = plan_depthwise_forward(problem, static_cast<int>(element_size(dtype)), channels_last, true);
  if (plan.depthwise.usable) {
    plan.engine = ForwardEngine::kDepthwise;
    return plan;
  }
  if (device.has(Engine::kWgmma) && dtype != DataType::kFloat64) {
    const int terms = dtype == DataType::kFloat32 && mode == Float32Mode::kIeee ? 2 : 1;
    plan.halo = plan_halo_forward(problem, {static_cast<int>(element_size(dtype)), terms}, channels_last, device);
    if (plan.halo.usable) {
      plan.engine = ForwardEngine::kHaloWgmma;
      plan.workspace_bytes = plan.halo.workspace_bytes();
      return plan;
    }
  }
  plan.engine = ForwardEngine::kSimt;
  plan.simt = plan_forward(problem, dtype);
  plan.workspace_bytes = plan.simt.packed_weight_elements * element_size(dtype);
  return plan;
}

std::string to_string(const ForwardPlan& plan) {
  switch (plan.engine) {
    case ForwardEngine::kSimt:
      return "simt: " + to_string(plan.simt);
    case ForwardEngine::kHaloWgmma:
      return "halo_wgmma: " + to_string(plan.halo);
    case ForwardEngine::kDepthwise:
      return "depthwise: " + to_string(plan.depthwise);
  }
  return "unknown";
}

}  // namespace convt3d
