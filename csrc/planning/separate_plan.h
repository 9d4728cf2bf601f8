// A backward whose gradients have a plan each:
//
//     grad_output, as it lies ---+--> input gradient, weight gradient, bias gradient        one after another
//                                |
//     ... or its copy with the channels last, which all of them read --->  (the input, too: the weight gradient's)
//
//     multiprocessors   [ input gradient ][ weight gradient         ]                       ... or beside each other
//
// Knows nothing of torch or CUDA.
#pragma once

#include <optional>
#include <vector>

#include "planning/choose.h"

namespace convt3d {

// The cheapest of these ways; none where the only engine that is asked has no plan for a gradient. No engine's plan
// looks at the weight, or at its gradient.
std::optional<OperatorPlan> separate_plan(const PlanQuery& query);
// All of them.
std::vector<OperatorPlan> separate_plans(const PlanQuery& query);

}  // namespace convt3d
