// Weight gradients on Hopper's matrix units that have the bias's, which nothing but a backward asks for.
#pragma once

#include <optional>

#include "check/case.h"
#include "core/gradient_round.h"
#include "core/operands.h"
#include "engines/wgmma/weight_grad/plan.h"

namespace check {

// One of the plans, by the case's number; none where rows do not have the bias's gradient.
std::optional<convt3d::WgmmaWeightGradPlan> plan_with_bias(const Case& item, const convt3d::Operands& operands);
void wgmma_weight_grad(const Case& item, const convt3d::WgmmaWeightGradPlan& plan, convt3d::ConstTensor grad_output,
                       convt3d::ConstTensor input, const convt3d::SummedGrads& grads, void* workspace);

}  // namespace check
