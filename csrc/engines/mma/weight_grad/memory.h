// How a block of the weight gradient shares out its shared memory.
#pragma once

#include "engines/mma/weight_grad/plan.h"

namespace convt3d::mma {

// Stages and boxes on their way, as many as there is room for, and what they take of shared memory. The plan's tiles
// are known. False where there is no room. Where there are only copies nobody awaits a box but those who use it; raw
// rows have room of their own until they have arrived.
bool set_memory(WeightGradPlan& plan, int64_t most_bytes, int64_t before = 0);

}  // namespace convt3d::mma
