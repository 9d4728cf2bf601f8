// What plans of the depthwise engine are expected to take.
#pragma once

#include "core/cost.h"
#include "core/device_traits.h"
#include "core/problem.h"

namespace convt3d {

Cost depthwise_cost(const Problem& problem, DataType dtype, const DeviceTraits& device);

}  // namespace convt3d
