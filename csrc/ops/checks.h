// Every check of an operator's arguments, made before anything is allocated or launched: ATen's own error text does not
// survive the stable ABI, so nothing that ATen would refuse may reach it. A failed check throws std::runtime_error with
// "<operator>: <argument> must be <what is valid>, got <value>".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/problem.h"
#include "ops/tensor_info.h"

namespace convt3d {

// The parameters as the schema delivers them: each list holds one value for all three dimensions, or three.
struct Parameters {
  const std::vector<int64_t>& stride;
  const std::vector<int64_t>& padding;
  const std::vector<int64_t>& output_padding;
  int64_t groups;
  const std::vector<int64_t>& dilation;
};

Problem check_forward(const char* op, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                      const Parameters& parameters);

Problem check_input_grad(const char* op, const Tensor& grad_output, const Tensor& weight,
                         const std::optional<Tensor>& relu_output, const Parameters& parameters);

Problem check_weight_grad(const char* op, const Tensor& grad_output, const Tensor& input,
                          const std::vector<int64_t>& kernel_size, const std::optional<Tensor>& relu_output,
                          const Parameters& parameters);

Problem check_backward(const char* op, const Tensor& grad_output, const Tensor& input, const Tensor& weight,
                       const std::optional<Tensor>& relu_output, const Parameters& parameters,
                       const std::vector<bool>& output_mask);
void check_output_mask(const char* op, const std::vector<bool>& output_mask);

void check_bias_grad(const char* op, const Tensor& grad_output, const std::optional<Tensor>& relu_output);

}  // namespace convt3d
