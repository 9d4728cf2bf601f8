// How the statistics of a norm behind a forward are come by, and where the norm is applied. Knows nothing of torch or
// CUDA.
#pragma once

#include <optional>

#include "core/device_traits.h"
#include "planning/norm_task.h"
#include "planning/operator_plan.h"

namespace convt3d {

struct NormChoice {
  NormWay way = NormWay::kPasses;
  double ms = 0;  // expected, beside the forward's own
};

// What is expected to take least or, if one is asked for and the plan can, that one.
NormChoice choose_norm(const OperatorPlan& forward, const NormTask& task, const DeviceTraits& device,
                       std::optional<NormWay> asked = std::nullopt);

}  // namespace convt3d
