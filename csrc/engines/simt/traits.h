// Traits of the general engine's plans.
#pragma once

#include <array>

#include "core/traits.h"
#include "engines/simt/plan.h"

namespace convt3d {

Traits simt_traits(const Problem& problem, const CorrelationPlan& plan, const ForwardArguments& arguments,
                   const ConstTensor& input, const MutableTensor& output);

// The gradients, each with the kernels of its own.
Traits input_grad_traits(const Problem& problem, DataType dtype, const ConstTensor& grad_output,
                         const ConstTensor& relu_output, const MutableTensor& grad_input);
Traits weight_grad_traits(const Problem& problem, DataType dtype, const ConstTensor& grad_output,
                          const ConstTensor& relu_output, const ConstTensor& input);
Traits bias_grad_traits(const std::array<int64_t, 5>& size, DataType dtype, const ConstTensor& grad_output,
                        const ConstTensor& relu_output);

}  // namespace convt3d
