// The traits of the engine's plans (core/traits.h).
#pragma once

#include "core/traits.h"
#include "engines/mma/backward/plan.h"
#include "engines/mma/correlation/plan.h"
#include "engines/mma/weight_grad/plan.h"

namespace convt3d::mma {

Traits forward_traits(const Problem& problem, const CorrelationPlan& plan, const ForwardArguments& arguments);
Traits input_grad_traits(const Problem& problem, const CorrelationPlan& plan, const ForwardArguments& arguments);
Traits weight_grad_traits(const Problem& problem, const WeightGradPlan& plan, const ForwardArguments& arguments);
Traits backward_traits(const Problem& problem, const BackwardPlan& plan, const ForwardArguments& arguments);

}  // namespace convt3d::mma
