// All gradients at once by the engine on mma.sync: plan -> kernel parameters -> launches; defined in run.cuh,
// instantiated in engines/instantiate/.
#pragma once

#include "core/call.h"
#include "core/gradient_round.h"
#include "core/problem.h"
#include "engines/mma/backward/plan.h"

namespace convt3d::mma {

template <typename T>
void backward(const Problem& problem, const BackwardPlan& plan, ConstTensor grad_output, ConstTensor relu_output,
              ConstTensor input, ConstTensor weight, MutableTensor grad_input, const SummedGrads& grads,
              void* workspace, Stream stream);

}  // namespace convt3d::mma
