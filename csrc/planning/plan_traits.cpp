#include "planning/plan_traits.h"

#include "engines/depthwise/traits.h"
#include "engines/wgmma/plan/traits.h"

namespace convt3d {

Traits forward_traits(const Problem& problem, const ForwardPlan& plan, const ForwardArguments& arguments,
                      const DeviceTraits& device, const ConstTensor& input, const MutableTensor& output) {
  switch (plan.engine) {
    case ForwardEngine::kSimt:
      return simt_traits(problem, plan.simt, arguments, input, output);
    case ForwardEngine::kHaloWgmma:
      return halo_traits(problem, plan.halo, arguments, device, input, output);
    case ForwardEngine::kDepthwise:
      return depthwise_traits(problem, plan.depthwise, arguments, input, output);
  }
  return {};
}

}  // namespace convt3d
