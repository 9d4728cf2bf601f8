#include "forward_plan.h"

namespace convt3d {

ForwardPlan choose_forward(const Problem& problem, DataType dtype, Float32Mode mode, bool channels_last,
                           DeviceTraits device) {
  ForwardPlan plan{};
  const bool tensor_cores = element_size(dtype) == 2 || (dtype == DataType::kFloat32 && mode == Float32Mode::kTf32);
  if (device.has_wgmma && tensor_cores) {
    plan.halo = plan_halo_forward(problem, static_cast<int>(element_size(dtype)), channels_last);
    if (plan.halo.usable) {
      plan.engine = ForwardEngine::kHaloWgmma;
      plan.workspace_bytes = plan.halo.packed_bytes;
      return plan;
    }
  }
  plan.engine = ForwardEngine::kSimt;
  plan.simt = plan_forward(problem, dtype);
  plan.workspace_bytes = plan.simt.packed_weight_elements * element_size(dtype);
  return plan;
}

std::string to_string(const ForwardPlan& plan) {
  return plan.engine == ForwardEngine::kSimt ? "simt: " + to_string(plan.simt) : "halo_wgmma: " + to_string(plan.halo);
}

}  // namespace convt3d
