// Which engine runs a forward, and its plan. Knows nothing of torch or CUDA.
#pragma once

#include <cstdint>
#include <string>

#include "core/call.h"
#include "core/device_traits.h"
#include "engines/depthwise/plan.h"
#include "engines/simt/plan.h"
#include "engines/wgmma/plan/plan.h"

namespace convt3d {

enum class ForwardEngine : int { kSimt, kHaloWgmma, kDepthwise };

struct ForwardPlan {
  ForwardEngine engine;
  CorrelationPlan simt;     // of engine kSimt
  HaloPlan halo;            // of engine kHaloWgmma
  DepthwisePlan depthwise;  // of engine kDepthwise
  int64_t workspace_bytes;
};

ForwardPlan choose_forward(const Problem& problem, DataType dtype, Float32Mode mode, bool channels_last,
                           const DeviceTraits& device);
std::string to_string(const ForwardPlan& plan);

}  // namespace convt3d
