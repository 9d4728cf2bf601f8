// The joint pass whose input gradient is Hopper's product of a warpgroup; defined in warpgroup_run.cuh, instantiated in
// engines/instantiate/, in a file of its own, which is compiled for 9.0's own instructions.
#pragma once

#include "core/call.h"
#include "engines/mma/backward/params.cuh"
#include "engines/mma/backward/plan.h"

namespace convt3d::mma {

// T: of the operands; float.
template <typename T>
void launch_backward_of_warpgroup(const BackwardPlan& plan, const BackwardParams<T>& params, Stream stream);

}  // namespace convt3d::mma
