// The plan of an operator, whichever engine it is for. Knows nothing of torch or CUDA.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "core/cost.h"
#include "core/device_traits.h"
#include "engines/depthwise/plan.h"
#include "engines/depthwise/tile_plan.h"
#include "engines/mma/correlation_plan.h"
#include "engines/mma/weight_grad_plan.h"
#include "engines/simt/plan.h"
#include "engines/wgmma/plan/plan.h"

namespace convt3d {

// The first three are of the general engine.
using EnginePlan = std::variant<CorrelationPlan, WeightGradPlan, BiasGradPlan, DepthwiseForwardPlan, DepthwiseTilePlan,
                                HaloPlan, mma::CorrelationPlan, mma::WeightGradPlan>;

struct OperatorPlan {
  EnginePlan plan;
  int64_t workspace_bytes = 0;
  Cost cost;  // on the device that it was chosen for

  Engine engine() const;
};

const char* engine_name(Engine engine);
// "engine: plan"
std::string to_string(const OperatorPlan& plan);

}  // namespace convt3d
