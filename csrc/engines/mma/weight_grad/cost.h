// What a plan of the weight gradient is expected to take.
#pragma once

#include "engines/mma/tile/load_cost.h"
#include "engines/mma/weight_grad/plan.h"

namespace convt3d::mma {

// Clocks of a multiprocessor for one position of a tile, about, before its box is known: `fragments` of 16 rows of all
// warps, and channels of both tiles.
double position_clocks(double fragments, int32_t columns, double grad_channels, double input_channels,
                       const WeightGradPlan& plan, const DeviceTraits& device);

constexpr double kBiasBlock = 5000;  // clocks with which such a block begins and ends
// Of a loading warp that sums rows for the bias's gradient, for a box; nothing where that is not wanted.
LoadingCost bias_rows_cost(const WeightGradPlan& plan);

void set_cost(WeightGradPlan& plan, const DeviceTraits& device);

}  // namespace convt3d::mma
