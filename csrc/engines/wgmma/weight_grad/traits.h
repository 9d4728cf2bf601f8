// Traits of the plans of weight gradients on Hopper's matrix units.
#pragma once

#include "core/problem.h"
#include "core/traits.h"
#include "engines/wgmma/weight_grad/plan.h"

namespace convt3d {

Traits wgmma_weight_grad_traits(const Problem& problem, const WgmmaWeightGradPlan& plan,
                                const ForwardArguments& arguments);

}  // namespace convt3d
