// The checks of a group norm's arguments; see csrc/ops/checks.h.
#pragma once

#include <cstdint>
#include <optional>

#include <torch/headeronly/core/ScalarType.h>

#include "ops/norm_backend.h"

namespace convt3d {

// Checks the arguments of a norm behind an operator whose input decides dtype and device. `channels`: of its result.
NormArguments check_norm(const char* op, const Tensor& input, int64_t channels, int64_t num_groups,
                         const std::optional<Tensor>& norm_weight, const std::optional<Tensor>& norm_bias, double eps,
                         double negative_slope, std::optional<torch::headeronly::ScalarType> dtype);

// Norms of channels are float32.
void check_no_float64(const char* op, const Tensor& input);

NormArguments check_norm_backward(const char* op, const Tensor& grad_output, const Tensor& input, const Tensor& mean,
                                  const Tensor& rstd, const std::optional<Tensor>& weight,
                                  const std::optional<Tensor>& bias, int64_t num_groups, double negative_slope);

}  // namespace convt3d
