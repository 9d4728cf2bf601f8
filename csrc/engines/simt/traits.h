// Traits of the general engine's plans.
#pragma once

#include "core/traits.h"
#include "engines/simt/plan.h"

namespace convt3d {

Traits simt_traits(const Problem& problem, const CorrelationPlan& plan, const ForwardArguments& arguments);

// The gradients, each with the kernels of its own.
Traits input_grad_traits(const Problem& problem, const CorrelationPlan& plan, DataType dtype);
Traits weight_grad_traits(const Problem& problem, const WeightGradPlan& plan, DataType dtype);
Traits bias_grad_traits(const Problem& problem, const BiasGradPlan& plan, DataType dtype);

}  // namespace convt3d
