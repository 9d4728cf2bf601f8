// Traits of the depthwise engine's plans.
#pragma once

#include "core/traits.h"
#include "engines/depthwise/plan.h"

namespace convt3d {

Traits depthwise_traits(const Problem& problem, const DepthwisePlan& plan, const ForwardArguments& arguments,
                        const ConstTensor& input, const MutableTensor& output);

}  // namespace convt3d
