// Every plan that the wgmma engine has for a problem: the parts in their order, each with every choice that may pay.
#pragma once

#include <functional>

#include "core/device_traits.h"
#include "engines/wgmma/plan/plan.h"
#include "engines/wgmma/plan/problem.h"

namespace convt3d {

// The parts of each, for operands that are dense and aligned, its store without marks, and what it is expected to cost,
// in clocks. `copies`: also those that copy an input whose width is contiguous with its channels last first.
void visit_plans(const WgmmaProblem& problem, WgmmaElement element, bool channels_last, bool copies,
                 const DeviceTraits& device, const std::function<void(const WgmmaPlanParts&, double)>& visit);

}  // namespace convt3d
