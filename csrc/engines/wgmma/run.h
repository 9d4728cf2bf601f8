// The engine on Hopper's matrix units. Plan -> kernel parameters -> launches; defined in run.cuh, instantiated in
// engines/instantiate/.
#pragma once

#include "core/call.h"
#include "core/problem.h"
#include "engines/wgmma/plan/input_grad.h"
#include "engines/wgmma/plan/plan.h"
#include "epilogue/epilogue.h"

namespace convt3d::wgmma {

template <typename T>
void forward(const Problem& problem, const WgmmaPlan& plan, ConstTensor input, ConstTensor weight,
             const Epilogue& epilogue, MutableTensor output, void* workspace, Stream stream);

// By the plan of the forward that it is.
template <typename T>
void input_grad(const Problem& problem, const WgmmaPlan& plan, ConstTensor grad_output, ConstTensor weight,
                MutableTensor grad_input, void* workspace, Stream stream) {
  forward<T>(*input_grad_as_forward(problem), plan, grad_output, input_grad_weight(problem, weight, sizeof(T)), {},
             grad_input, workspace, stream);
}

}  // namespace convt3d::wgmma
