// The search for plans of one way to read both operands.
#pragma once

#include <vector>

#include "engines/mma/weight_grad/plan.h"

namespace convt3d::mma {

// `base`: weight_grad_base(), and which operands are copied.
std::vector<WeightGradPlan> search_weight_grad(const Problem& problem, const WeightGradPlan& base,
                                               const DeviceTraits& device, int64_t most_copied);

}  // namespace convt3d::mma
