// Which engine computes a call, and by which plan. Knows nothing of torch or CUDA.
#pragma once

#include <optional>

#include "core/call.h"
#include "core/device_traits.h"
#include "core/operands.h"
#include "core/operator.h"
#include "core/problem.h"
#include "planning/operator_plan.h"

namespace convt3d {

// Everything that a choice looks at.
struct PlanQuery {
  Operator op;
  Problem problem;  // of the bias gradient only the output's size counts
  DataType dtype;
  Float32Mode mode;
  Operands operands;
  DeviceTraits device;
  std::optional<Engine> engine;  // the only one that is asked; none: all are
};

// The cheapest of the plans that the engines offer. Throws std::invalid_argument where the only engine that is asked
// has none.
OperatorPlan choose(const PlanQuery& query);

}  // namespace convt3d
