// The general engine: every operator, every type, every problem. Plan -> kernel parameters -> launches; defined in
// run_*.cuh, instantiated in engines/instantiate/.
#pragma once

#include "core/call.h"
#include "core/problem.h"
#include "engines/simt/plan.h"
#include "epilogue/epilogue.h"

namespace convt3d::simt {

template <typename T>
void forward(const Problem& problem, const CorrelationPlan& plan, ConstTensor input, ConstTensor weight,
             const Epilogue& epilogue, MutableTensor output, void* workspace, Stream stream);
template <typename T>
void input_grad(const Problem& problem, const CorrelationPlan& plan, ConstTensor grad_output, ConstTensor relu_output,
                ConstTensor weight, MutableTensor grad_input, void* workspace, Stream stream);
template <typename T>
void weight_grad(const Problem& problem, const WeightGradPlan& plan, ConstTensor grad_output, ConstTensor relu_output,
                 ConstTensor input, MutableTensor grad_weight, void* workspace, Stream stream);
template <typename T>
void bias_grad(const Problem& problem, const BiasGradPlan& plan, ConstTensor grad_output, ConstTensor relu_output,
               void* grad_bias, void* workspace, Stream stream);

}  // namespace convt3d::simt
