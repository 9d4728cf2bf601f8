// What a plan of the weight gradient is expected to take.
#pragma once

#include "engines/mma/weight_grad_plan.h"

namespace convt3d::mma {

void set_cost(WeightGradPlan& plan, const GradLayouts& layouts, const GradLimits& limits);

}  // namespace convt3d::mma
