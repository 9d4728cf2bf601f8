// Which plans there are for a case.
#pragma once

#include <vector>

#include "check/case.h"
#include "core/device_traits.h"
#include "core/operands.h"
#include "engines/wgmma/plan/plan.h"
#include "planning/operator_plan.h"

namespace check {

// That plans are for, however many multiprocessors then run them; those are the grid's alone.
const convt3d::DeviceTraits& device_of(const Case& item);
// The same for weight gradients on Hopper's matrix units, with few multiprocessors or little shared memory in some
// cases: blocks then have more boxes than stages.
convt3d::DeviceTraits weight_grad_device(const Case& item);
// Of the engine halo_wgmma, whatever it would choose.
std::vector<convt3d::WgmmaPlan> candidates(const Case& item);
// The plan that a case asks for.
convt3d::OperatorPlan plan_of(const Case& item, const convt3d::Operands& operands);
// Whether a gradient has a plan of copies (planning/copied_gradient.h).
bool is_of_copies(const Case& item);
// Whether the engine that a case asks for has a plan for it.
bool has_plan(const Case& item);
// Before its tensors are there.
convt3d::Operands operands_of(const Case& item);

}  // namespace check
