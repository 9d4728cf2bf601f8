// The engine's tiles: gradients, and the forward with long kernels. Plan -> kernel parameters -> launches; defined in
// run_tiles.cuh, instantiated in engines/instantiate/.
#pragma once

#include "core/call.h"
#include "core/gradient_round.h"
#include "core/problem.h"
#include "engines/depthwise/tile_plan.h"
#include "epilogue/epilogue.h"

namespace convt3d::depthwise {

template <typename T>
void tile_forward(const Problem& problem, const DepthwiseTilePlan& plan, ConstTensor input, ConstTensor weight,
                  const Epilogue& epilogue, MutableTensor output, Stream stream);
template <typename T>
void tile_input_grad(const Problem& problem, const DepthwiseTilePlan& plan, ConstTensor grad_output,
                     ConstTensor relu_output, ConstTensor weight, MutableTensor grad_input, Stream stream);
template <typename T>
void tile_weight_grad(const Problem& problem, const DepthwiseTilePlan& plan, ConstTensor grad_output,
                      ConstTensor relu_output, ConstTensor input, const SummedGrads& grads, void* workspace,
                      Stream stream);

}  // namespace convt3d::depthwise
