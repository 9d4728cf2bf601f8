// What a weight gradient on Hopper's matrix units is expected to take.
#pragma once

#include "core/device_traits.h"
#include "engines/wgmma/weight_grad/plan.h"

namespace convt3d {

// Of a plan whose boxes and splits are set; sets cost_ms.
void set_cost(WgmmaWeightGradPlan& plan, const DeviceTraits& device);

}  // namespace convt3d
