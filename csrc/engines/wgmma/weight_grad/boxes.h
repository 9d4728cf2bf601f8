// The boxes of the input and of grad_output that TMA brings for a weight gradient.
#pragma once

#include "core/operands.h"
#include "core/problem.h"
#include "device/tensor_box.h"
#include "engines/wgmma/weight_grad/plan.h"

namespace convt3d {

// Whether TMA can bring boxes of both operands, whose channels then are neighbours, for each group.
bool can_box(const Problem& problem, int32_t element_bytes, const Operands& operands);
// Without address and type. `stride`: of the tensor, in elements.
TensorBox input_box(const Problem& problem, const WgmmaWeightGradPlan& plan, const std::array<int64_t, 5>& stride);
TensorBox grad_box(const Problem& problem, const WgmmaWeightGradPlan& plan, const std::array<int64_t, 5>& stride);

}  // namespace convt3d
