// What a plan of the matmul engine is expected to take.
#pragma once

#include <cstdint>

#include "core/device_traits.h"
#include "engines/matmul/plan.h"

namespace convt3d {

// `fit`: blocks that a multiprocessor has at a time.
double matmul_cost_ms(const MatmulPlan& plan, int64_t fit, const DeviceTraits& device);

}  // namespace convt3d
