// The engine on mma.sync: plan -> kernel parameters -> launches; defined in run.cuh, instantiated in
// engines/instantiate/.
#pragma once

#include "core/call.h"
#include "core/problem.h"
#include "engines/mma/correlation/plan.h"
#include "epilogue/epilogue.h"

namespace convt3d::mma {

template <typename T>
void forward(const Problem& problem, const CorrelationPlan& plan, ConstTensor input, ConstTensor weight,
             const Epilogue& epilogue, MutableTensor output, void* workspace, Stream stream);
template <typename T>
void input_grad(const Problem& problem, const CorrelationPlan& plan, ConstTensor grad_output, ConstTensor relu_output,
                ConstTensor weight, MutableTensor grad_input, void* workspace, Stream stream);

}  // namespace convt3d::mma
