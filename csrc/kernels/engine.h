// One engine an element type: what api.cpp calls once it knows the type. Instantiated in one file a type, so that they
// compile side by side.
#pragma once

#include "forward_plan.h"
#include "kernels/api.h"
#include "plan.h"

namespace convt3d {

template <typename T>
struct Engine {
  static void forward(const Problem& problem, const ForwardPlan& plan, ConstTensor input, ConstTensor weight,
                      ConstVector bias, Activation activation, MutableTensor output, void* workspace, Stream stream);
  static void input_grad(const Problem& problem, ConstTensor grad_output, ConstTensor relu_output, ConstTensor weight,
                         MutableTensor grad_input, void* workspace, Stream stream);
  static void weight_grad(const Problem& problem, ConstTensor grad_output, ConstTensor relu_output, ConstTensor input,
                          MutableTensor grad_weight, void* workspace, Stream stream);
  static void bias_grad(const std::array<int64_t, 5>& size, ConstTensor grad_output, ConstTensor relu_output,
                        void* grad_bias, void* workspace, Stream stream);
};

}  // namespace convt3d
