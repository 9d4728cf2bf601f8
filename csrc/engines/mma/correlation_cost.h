// What a plan is expected to take.
#pragma once

#include "engines/mma/correlation_plan.h"

namespace convt3d::mma {

void set_cost(CorrelationPlan& plan, int32_t element_bytes, const Limits& limits);

}  // namespace convt3d::mma
