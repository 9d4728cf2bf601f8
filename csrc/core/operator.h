// What is computed: the forward, the gradient of one of its arguments, or the gradients of several.
#pragma once

namespace convt3d {

enum class Operator : int {
  kForward,
  kInputGrad,
  kWeightGrad,
  kBiasGrad,
  kBackward,        // of input and weight
  kBackwardAndBias  // of input, weight and bias
};

constexpr bool is_backward(Operator op) { return op == Operator::kBackward || op == Operator::kBackwardAndBias; }

}  // namespace convt3d
