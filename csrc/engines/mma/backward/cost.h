#pragma once

#include "engines/mma/backward/plan.h"

namespace convt3d::mma {

// Milliseconds. The splits are those of plan.grad.
double backward_cost_ms(const BackwardPlan& plan, const DeviceTraits& device);

}  // namespace convt3d::mma
