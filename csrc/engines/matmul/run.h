// Plan -> kernel parameters -> launch; defined in run.cuh, instantiated in engines/instantiate/.
#pragma once

#include "core/call.h"
#include "core/problem.h"
#include "engines/matmul/plan.h"
#include "epilogue/epilogue.h"

namespace convt3d::matmul {

template <typename T>
void forward(const MatmulPlan& plan, ConstTensor input, ConstTensor weight, const Epilogue& epilogue,
             MutableTensor output, Stream stream);

template <typename T>
void input_grad(const MatmulPlan& plan, ConstTensor grad_output, ConstTensor weight, MutableTensor grad_input,
                void* workspace, Stream stream);

}  // namespace convt3d::matmul
