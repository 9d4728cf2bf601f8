// The traits of the matmul engine's plans.
#pragma once

#include "core/problem.h"
#include "core/traits.h"
#include "engines/matmul/plan.h"

namespace convt3d {

Traits matmul_traits(const Problem& problem, const MatmulPlan& plan, const ForwardArguments& arguments);

}  // namespace convt3d
