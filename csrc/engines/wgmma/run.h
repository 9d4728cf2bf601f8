// The engine on Hopper's matrix units. Plan -> kernel parameters -> launches; defined in run.cuh, instantiated in
// engines/instantiate/.
#pragma once

#include "core/call.h"
#include "core/problem.h"
#include "engines/wgmma/plan/plan.h"
#include "engines/wgmma/plan/problem.h"
#include "epilogue/epilogue.h"

namespace convt3d::wgmma {

// `weight_stride`: beside that of its taps.
template <typename T>
void correlate(const WgmmaProblem& problem, const WgmmaPlan& plan, ConstTensor input, ConstTensor weight,
               const WgmmaWeightStrides& weight_stride, const Epilogue& epilogue, MutableTensor output, void* workspace,
               Stream stream);

template <typename T>
void forward(const Problem& problem, const WgmmaPlan& plan, ConstTensor input, ConstTensor weight,
             const Epilogue& epilogue, MutableTensor output, void* workspace, Stream stream) {
  correlate<T>(wgmma_forward(problem), plan, input, weight, forward_weight(problem, weight.stride), epilogue, output,
               workspace, stream);
}

template <typename T>
void input_grad(const Problem& problem, const WgmmaPlan& plan, ConstTensor grad_output, ConstTensor weight,
                MutableTensor grad_input, void* workspace, Stream stream) {
  correlate<T>(wgmma_input_grad(problem), plan, grad_output, weight, input_grad_weight(problem, weight.stride), {},
               grad_input, workspace, stream);
}

}  // namespace convt3d::wgmma
