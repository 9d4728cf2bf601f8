// What distinguishes one plan from another, as data: the ways that the kernels go. Tests draw problems until every
// value of every trait, and every pair of values of one plan, was met. Knows nothing of torch or CUDA.
//
// An engine joins by a function of its own that names its traits. A trait has few values: counts are named by what the
// kernel does differently ("1" and "many"), not by their numbers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "forward_plan.h"
#include "kernels/api.h"
#include "plan.h"

namespace convt3d {

struct Trait {
  const char* name;
  std::string value;
};
using Traits = std::vector<Trait>;

// Of a forward, beside its tensors.
struct ForwardArguments {
  DataType dtype;
  Float32Mode mode;
  bool bias;
  bool relu;
};

// Of whichever engine the plan is for. Only strides and addresses of the tensors count.
Traits forward_traits(const Problem& problem, const ForwardPlan& plan, const ForwardArguments& arguments,
                      const ConstTensor& input, const MutableTensor& output);

// One engine each, beginning with what the plans of all engines have.
Traits halo_traits(const Problem& problem, const HaloPlan& plan, const ForwardArguments& arguments,
                   const ConstTensor& input, const MutableTensor& output);
Traits depthwise_traits(const Problem& problem, const DepthwisePlan& plan, const ForwardArguments& arguments,
                        const ConstTensor& input, const MutableTensor& output);
Traits simt_traits(const Problem& problem, const CorrelationPlan& plan, const ForwardArguments& arguments,
                   const ConstTensor& input, const MutableTensor& output);

// The gradients, each with the kernels of its own.
Traits input_grad_traits(const Problem& problem, DataType dtype, const ConstTensor& grad_output,
                         const ConstTensor& relu_output, const MutableTensor& grad_input);
Traits weight_grad_traits(const Problem& problem, DataType dtype, const ConstTensor& grad_output,
                          const ConstTensor& relu_output, const ConstTensor& input);
Traits bias_grad_traits(const std::array<int64_t, 5>& size, DataType dtype, const ConstTensor& grad_output,
                        const ConstTensor& relu_output);

// "name=value name=value ..."
std::string to_string(const Traits& traits);

}  // namespace convt3d
