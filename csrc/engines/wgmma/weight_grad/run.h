// Weight gradient of the engine on Hopper's matrix units. Plan -> kernel parameters -> launches; defined in run.cuh,
// instantiated in engines/instantiate/.
#pragma once

#include "core/call.h"
#include "core/gradient_round.h"
#include "core/problem.h"
#include "engines/wgmma/weight_grad/plan.h"

namespace convt3d::wgmma {

// Of all but float64.
template <typename T>
void weight_grad(const Problem& problem, const WgmmaWeightGradPlan& plan, ConstTensor grad_output, ConstTensor input,
                 const SummedGrads& grads, void* workspace, Stream stream, const GradRound& round = {});

}  // namespace convt3d::wgmma
