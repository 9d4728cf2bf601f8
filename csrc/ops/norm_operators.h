// The transposed convolution with a group norm behind it: check the arguments, then hand them to a device's backends.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "ops/backend.h"
#include "ops/checks.h"
#include "ops/norm_checks.h"

namespace convt3d {

template <typename Norm>
struct NormOperators {
  using Ints = std::vector<int64_t>;
  using OptionalTensor = std::optional<Tensor>;
  using OptionalType = std::optional<torch::headeronly::ScalarType>;

  static Tensor conv_transpose3d_relu_group_norm(const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                                                 const Ints& stride, const Ints& padding, const Ints& output_padding,
                                                 int64_t groups, const Ints& dilation, int64_t num_groups,
                                                 const OptionalTensor& norm_weight, const OptionalTensor& norm_bias,
                                                 double eps) {
    constexpr const char* op = "conv_transpose3d_relu_group_norm";
    const Parameters parameters{stride, padding, output_padding, groups, dilation};
    const Problem problem = check_forward(op, input, weight, bias, parameters);
    const NormArguments norm =
        check_norm(op, input, problem.out_channels, num_groups, norm_weight, norm_bias, eps, 1, std::nullopt);
    return Norm::forward(op, {problem, input, weight, bias, Activation::kRelu}, norm);
  }

  static Tensor conv_transpose3d_group_norm(const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                                            const Ints& stride, const Ints& padding, const Ints& output_padding,
                                            int64_t groups, const Ints& dilation, int64_t num_groups,
                                            const OptionalTensor& norm_weight, const OptionalTensor& norm_bias,
                                            double eps, bool relu, double negative_slope, OptionalType dtype) {
    constexpr const char* op = "conv_transpose3d_group_norm";
    const Parameters parameters{stride, padding, output_padding, groups, dilation};
    const Problem problem = check_forward(op, input, weight, bias, parameters);
    const NormArguments norm =
        check_norm(op, input, problem.out_channels, num_groups, norm_weight, norm_bias, eps, negative_slope, dtype);
    return Norm::forward(op, {problem, input, weight, bias, activation(relu)}, norm);
  }

  // The result, and what its derivatives need: the norm's input and its statistics.
  static std::tuple<Tensor, Tensor, Tensor, Tensor> conv_transpose3d_group_norm_forward(
      const Tensor& input, const Tensor& weight, const OptionalTensor& bias, const Ints& stride, const Ints& padding,
      const Ints& output_padding, int64_t groups, const Ints& dilation, int64_t num_groups,
      const OptionalTensor& norm_weight, const OptionalTensor& norm_bias, double eps, bool relu, double negative_slope,
      OptionalType dtype) {
    constexpr const char* op = "conv_transpose3d_group_norm_forward";
    const Parameters parameters{stride, padding, output_padding, groups, dilation};
    const Problem problem = check_forward(op, input, weight, bias, parameters);
    const NormArguments norm =
        check_norm(op, input, problem.out_channels, num_groups, norm_weight, norm_bias, eps, negative_slope, dtype);
    const NormResult result = Norm::forward_and_keep(op, {problem, input, weight, bias, activation(relu)}, norm);
    return {result.output, result.convolved, result.mean, result.rstd};
  }

  // What is left to apply is pointwise, and may go into a kernel with whatever follows.
  static std::tuple<Tensor, Tensor, Tensor, Tensor> conv_transpose3d_channel_norms(
      const Tensor& input, const Tensor& weight, const OptionalTensor& bias, const Ints& stride, const Ints& padding,
      const Ints& output_padding, int64_t groups, const Ints& dilation, int64_t num_groups,
      const OptionalTensor& norm_weight, const OptionalTensor& norm_bias, double eps, bool relu) {
    constexpr const char* op = "conv_transpose3d_channel_norms";
    const Parameters parameters{stride, padding, output_padding, groups, dilation};
    const Problem problem = check_forward(op, input, weight, bias, parameters);
    const NormArguments norm =
        check_norm(op, input, problem.out_channels, num_groups, norm_weight, norm_bias, eps, 1, std::nullopt);
    check_no_float64(op, input);
    const NormOfChannels result = Norm::of_channels(op, {problem, input, weight, bias, activation(relu)}, norm);
    return {result.convolved, result.norms, result.mean, result.rstd};
  }

  // What is not asked for comes as an undefined tensor, which Python sees as None.
  static std::tuple<Tensor, Tensor, Tensor> group_norm_backward(const Tensor& grad_output, const Tensor& input,
                                                                const Tensor& mean, const Tensor& rstd,
                                                                const OptionalTensor& weight,
                                                                const OptionalTensor& bias, int64_t num_groups,
                                                                bool relu, double negative_slope,
                                                                const std::vector<bool>& output_mask) {
    constexpr const char* op = "group_norm_backward";
    const NormArguments norm =
        check_norm_backward(op, grad_output, input, mean, rstd, weight, bias, num_groups, negative_slope);
    check_output_mask(op, output_mask);
    const Gradients gradients = Norm::backward(op, grad_output, input, mean, rstd, norm, relu,
                                               {output_mask[0], output_mask[1], output_mask[2]});
    const auto or_undefined = [](const std::optional<Tensor>& gradient) { return gradient ? *gradient : Tensor(); };
    return {or_undefined(gradients[0]), or_undefined(gradients[1]), or_undefined(gradients[2])};
  }

 private:
  static Activation activation(bool relu) { return relu ? Activation::kRelu : Activation::kNone; }
};

}  // namespace convt3d
