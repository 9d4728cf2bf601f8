// What a plan is expected to take, and how many blocks share its boxes.
#pragma once

#include "engines/mma/correlation_plan.h"

namespace convt3d::mma {

// Sets the cost and the walkers.
void set_cost(CorrelationPlan& plan, int32_t element_bytes, const DeviceTraits& device);

}  // namespace convt3d::mma
