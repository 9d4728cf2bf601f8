// The engine for groups of a few channels. Plan -> kernel parameters -> launch; defined in run.cuh, instantiated in
// engines/instantiate/.
#pragma once

#include "core/call.h"
#include "core/problem.h"
#include "engines/depthwise/plan.h"
#include "epilogue/epilogue.h"

namespace convt3d::depthwise {

template <typename T>
void forward(const Problem& problem, const DepthwiseForwardPlan& plan, ConstTensor input, ConstTensor weight,
             const Epilogue& epilogue, MutableTensor output, Stream stream);

}  // namespace convt3d::depthwise
