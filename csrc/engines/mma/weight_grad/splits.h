// How many blocks share the boxes of a weight gradient, and how long each sums in registers.
#pragma once

#include <functional>

#include "core/device_traits.h"
#include "engines/mma/weight_grad/plan.h"

namespace convt3d::mma {

// Tries as many blocks as the device has multiprocessors, twice and thrice as many; `price` sets a plan's cost.
void choose_splits(WeightGradPlan& plan, const DeviceTraits& device, const std::function<void(WeightGradPlan&)>& price);

}  // namespace convt3d::mma
