// Weight gradient of the engine on mma.sync: plan -> kernel parameters -> launches; defined in run.cuh,
// instantiated in engines/instantiate/.
#pragma once

#include "core/call.h"
#include "core/gradient_round.h"
#include "core/problem.h"
#include "engines/mma/weight_grad/plan.h"

namespace convt3d::mma {

template <typename T>
void weight_grad(const Problem& problem, const WeightGradPlan& plan, ConstTensor grad_output, ConstTensor relu_output,
                 ConstTensor input, const SummedGrads& grads, void* workspace, Stream stream,
                 const GradRound& round = {});

}  // namespace convt3d::mma
