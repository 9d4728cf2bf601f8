// Weight gradient of the engine on mma.sync: plan -> kernel parameters -> launches; defined in run_weight_grad.cuh,
// instantiated in engines/instantiate/.
#pragma once

#include "core/call.h"
#include "core/problem.h"
#include "engines/mma/weight_grad_plan.h"

namespace convt3d::mma {

template <typename T>
void weight_grad(const Problem& problem, const WeightGradPlan& plan, ConstTensor grad_output, ConstTensor relu_output,
                 ConstTensor input, MutableTensor grad_weight, void* workspace, Stream stream);

}  // namespace convt3d::mma
