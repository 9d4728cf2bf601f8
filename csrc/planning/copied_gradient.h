// One gradient by wgmma of copies that it does not make by itself: of several rounds of images or, of the weight, of
// any:
//
//     grad_output (and the input) of some images  -->  copy with the channels last  -->  halo_wgmma     round by round
//
// Other engines read any layout, and mma makes copies of its own. Knows nothing of torch or CUDA.
#pragma once

#include <optional>

#include "planning/choose.h"

namespace convt3d {

// The cheapest way, where all engines are asked or wgmma alone.
std::optional<OperatorPlan> copied_gradient(const PlanQuery& query);

}  // namespace convt3d
