// The traits of the plan of a call, whichever engine it is for. Knows nothing of torch or CUDA.
#pragma once

#include "core/traits.h"
#include "planning/choose.h"

namespace convt3d {

// `bias`, `relu`: of a forward, on which no plan depends.
Traits plan_traits(const PlanQuery& query, const OperatorPlan& plan, bool bias, bool relu);

}  // namespace convt3d
