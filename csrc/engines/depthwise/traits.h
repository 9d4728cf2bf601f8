// Traits of the depthwise engine's plans.
#pragma once

#include "core/traits.h"
#include "engines/depthwise/patch_plan.h"
#include "engines/depthwise/plan.h"
#include "engines/depthwise/tile_plan.h"

namespace convt3d {

Traits depthwise_traits(const Problem& problem, const DepthwiseForwardPlan& plan, const ForwardArguments& arguments);
Traits depthwise_tile_traits(const Problem& problem, const DepthwiseTilePlan& plan, const ForwardArguments& arguments);
Traits depthwise_patch_traits(const Problem& problem, const DepthwisePatchPlan& plan, DataType dtype);

}  // namespace convt3d
