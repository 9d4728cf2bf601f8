// The engine on Hopper's matrix units. Plan -> kernel parameters -> launches; defined in run.cuh, instantiated in
// engines/instantiate/.
#pragma once

#include "core/call.h"
#include "core/problem.h"
#include "engines/wgmma/plan/plan.h"
#include "epilogue/epilogue.h"

namespace convt3d::wgmma {

template <typename T>
void forward(const Problem& problem, const HaloPlan& plan, ConstTensor input, ConstTensor weight,
             const Epilogue& epilogue, MutableTensor output, void* workspace, Stream stream);

}  // namespace convt3d::wgmma
