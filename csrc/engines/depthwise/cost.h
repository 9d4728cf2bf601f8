// What plans of the depthwise engine are expected to take.
#pragma once

#include "core/cost.h"
#include "core/device_traits.h"
#include "core/problem.h"
#include "engines/depthwise/patch_plan.h"
#include "engines/depthwise/plan.h"
#include "engines/depthwise/tile_plan.h"

namespace convt3d {

Cost depthwise_cost(const Problem& problem, const DepthwiseForwardPlan& plan, DataType dtype,
                    const DeviceTraits& device);
// Of tiles: a model's. What takes longer of memory and of the instructions.
Cost depthwise_cost(const Problem& problem, const DepthwiseTilePlan& plan, DataType dtype, const DeviceTraits& device);
// Of patches: likewise.
Cost depthwise_cost(const Problem& problem, const DepthwisePatchPlan& plan, DataType dtype, const DeviceTraits& device);

}  // namespace convt3d
