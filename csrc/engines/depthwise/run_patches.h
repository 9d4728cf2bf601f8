// The engine's patches: gradients with the commonest kernels. Plan -> kernel parameters -> launches; defined in
// run_patches.cuh, instantiated in engines/instantiate/.
#pragma once

#include "core/call.h"
#include "core/gradient_round.h"
#include "core/problem.h"
#include "engines/depthwise/patch_plan.h"

namespace convt3d::depthwise {

template <typename T>
void patch_input_grad(const DepthwisePatchPlan& plan, ConstTensor grad_output, ConstTensor weight,
                      MutableTensor grad_input, Stream stream);
template <typename T>
void patch_weight_grad(const Problem& problem, const DepthwisePatchPlan& plan, ConstTensor grad_output,
                       ConstTensor input, const SummedGrads& grads, void* workspace, Stream stream);
// All gradients, of a plan that has them.
template <typename T>
void patch_backward(const Problem& problem, const DepthwisePatchPlan& plan, ConstTensor grad_output, ConstTensor input,
                    ConstTensor weight, MutableTensor grad_input, const SummedGrads& grads, void* workspace,
                    Stream stream);

}  // namespace convt3d::depthwise
