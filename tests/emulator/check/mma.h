// Cases of the engine on mma.sync: a plan, and its launch.
#pragma once

#include "check/case.h"
#include "engines/mma/correlation/plan.h"
#include "engines/mma/weight_grad/plan.h"
#include "epilogue/epilogue.h"
#include "planning/operator_plan.h"

namespace check {

// Of an operator that the engine has; with limits of one device or another, which follow from the seed. A case whose
// plan is a number has one of the plans of not too many blocks. Throws std::invalid_argument where there is none.
convt3d::mma::CorrelationPlan mma_plan(const Case& item, const convt3d::ConstTensor& source,
                                       const convt3d::ConstTensor& mask, const convt3d::MutableTensor& destination);

// False where an axis has more taps or residues than the engine takes.
bool may_have_mma_plan(const Case& item);

void mma_forward(const Case& item, const convt3d::mma::CorrelationPlan& plan, convt3d::ConstTensor input,
                 convt3d::ConstTensor weight, const convt3d::Epilogue& epilogue, convt3d::MutableTensor output,
                 void* workspace);
void mma_input_grad(const Case& item, const convt3d::mma::CorrelationPlan& plan, convt3d::ConstTensor grad_output,
                    convt3d::ConstTensor relu_output, convt3d::ConstTensor weight, convt3d::MutableTensor grad_input,
                    void* workspace);

// Likewise.
convt3d::mma::WeightGradPlan mma_weight_grad_plan(const Case& item, const convt3d::ConstTensor& grad_output,
                                                  const convt3d::ConstTensor& relu_output,
                                                  const convt3d::ConstTensor& input);
void mma_weight_grad(const Case& item, const convt3d::mma::WeightGradPlan& plan, convt3d::ConstTensor grad_output,
                     convt3d::ConstTensor relu_output, convt3d::ConstTensor input, convt3d::MutableTensor grad_weight,
                     void* workspace);

// Likewise, of the case's gradients.
convt3d::OperatorPlan mma_backward_plan(const Case& item, const convt3d::Operands& operands);

}  // namespace check
