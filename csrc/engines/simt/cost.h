// What plans of the general engine are expected to take.
#pragma once

#include "core/cost.h"
#include "core/device_traits.h"
#include "core/operator.h"
#include "engines/simt/plan.h"

namespace convt3d {

// `op`: forward or input gradient.
Cost simt_cost(Operator op, const Problem& problem, const CorrelationPlan& plan, DataType dtype,
               const DeviceTraits& device);
Cost simt_cost(const Problem& problem, const WeightGradPlan& plan, DataType dtype, const DeviceTraits& device);
Cost simt_cost(const Problem& problem, const BiasGradPlan& plan, DataType dtype, const DeviceTraits& device);

}  // namespace convt3d
