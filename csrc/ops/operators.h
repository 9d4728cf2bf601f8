// The operators: check the arguments, then hand them to a device's backend.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "ops/backend.h"
#include "ops/checks.h"

namespace convt3d {

template <typename Backend>
struct Operators {
  using Ints = std::vector<int64_t>;

  static Tensor conv_transpose3d(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                                 const Ints& stride, const Ints& padding, const Ints& output_padding, int64_t groups,
                                 const Ints& dilation) {
    constexpr const char* op = "conv_transpose3d";
    const Problem problem = check_forward(op, input, weight, bias, {stride, padding, output_padding, groups, dilation});
    return Backend::forward(op, problem, input, weight, bias, Activation::kNone);
  }

  static Tensor conv_transpose3d_relu(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                                      const Ints& stride, const Ints& padding, const Ints& output_padding,
                                      int64_t groups, const Ints& dilation) {
    constexpr const char* op = "conv_transpose3d_relu";
    const Problem problem = check_forward(op, input, weight, bias, {stride, padding, output_padding, groups, dilation});
    return Backend::forward(op, problem, input, weight, bias, Activation::kRelu);
  }

  static Tensor conv_transpose3d_input_grad(const Tensor& grad_output, const Tensor& weight,
                                            const std::optional<Tensor>& relu_output, const Ints& stride,
                                            const Ints& padding, const Ints& output_padding, int64_t groups,
                                            const Ints& dilation) {
    constexpr const char* op = "conv_transpose3d_input_grad";
    const Problem problem =
        check_input_grad(op, grad_output, weight, relu_output, {stride, padding, output_padding, groups, dilation});
    return Backend::input_grad(op, problem, grad_output, relu_output, weight);
  }

  static Tensor conv_transpose3d_weight_grad(const Tensor& grad_output, const Tensor& input, const Ints& kernel_size,
                                             const std::optional<Tensor>& relu_output, const Ints& stride,
                                             const Ints& padding, const Ints& output_padding, int64_t groups,
                                             const Ints& dilation) {
    constexpr const char* op = "conv_transpose3d_weight_grad";
    const Problem problem = check_weight_grad(op, grad_output, input, kernel_size, relu_output,
                                              {stride, padding, output_padding, groups, dilation});
    return Backend::weight_grad(op, problem, grad_output, relu_output, input);
  }

  static Tensor conv_transpose3d_bias_grad(const Tensor& grad_output, const std::optional<Tensor>& relu_output) {
    constexpr const char* op = "conv_transpose3d_bias_grad";
    check_bias_grad(op, grad_output, relu_output);
    return Backend::bias_grad(op, grad_output, relu_output);
  }

  // What is not asked for comes as an undefined tensor, which Python sees as None.
  static std::tuple<Tensor, Tensor, Tensor> conv_transpose3d_backward(
      const Tensor& grad_output, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& relu_output,
      const Ints& stride, const Ints& padding, const Ints& output_padding, int64_t groups, const Ints& dilation,
      const std::vector<bool>& output_mask) {
    constexpr const char* op = "conv_transpose3d_backward";
    const Problem problem = check_backward(op, grad_output, input, weight, relu_output,
                                           {stride, padding, output_padding, groups, dilation}, output_mask);
    const Gradients gradients = Backend::backward(op, problem, grad_output, relu_output, input, weight,
                                                  {output_mask[0], output_mask[1], output_mask[2]});
    const auto or_undefined = [](const std::optional<Tensor>& gradient) { return gradient ? *gradient : Tensor(); };
    return {or_undefined(gradients[0]), or_undefined(gradients[1]), or_undefined(gradients[2])};
  }
};

}  // namespace convt3d
