// The traits of the plan of a call, whichever engine it is for. Knows nothing of torch or CUDA.
#pragma once

#include "core/traits.h"
#include "engines/simt/traits.h"
#include "planning/forward_plan.h"

namespace convt3d {

// Of whichever engine the plan is for. Only strides and addresses of the tensors count.
Traits forward_traits(const Problem& problem, const ForwardPlan& plan, const ForwardArguments& arguments,
                      const DeviceTraits& device, const ConstTensor& input, const MutableTensor& output);

}  // namespace convt3d
