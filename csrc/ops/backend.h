// The operators on one device, on checked arguments: what csrc/ops/operators.h needs of a device.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "core/problem.h"
#include "kernels/api.h"
#include "ops/tensor_info.h"

namespace convt3d {

// The gradients of input, weight and bias, in this order; only those that are wanted are computed, and have a value.
using WantedGradients = std::array<bool, 3>;
using Gradients = std::array<std::optional<Tensor>, 3>;

struct CpuBackend {
  static Tensor forward(const char* op, const Problem& problem, const Tensor& input, const Tensor& weight,
                        const std::optional<Tensor>& bias, Activation activation);
  static Tensor input_grad(const char* op, const Problem& problem, const Tensor& grad_output,
                           const std::optional<Tensor>& relu_output, const Tensor& weight);
  static Tensor weight_grad(const char* op, const Problem& problem, const Tensor& grad_output,
                            const std::optional<Tensor>& relu_output, const Tensor& input);
  static Tensor bias_grad(const char* op, const Tensor& grad_output, const std::optional<Tensor>& relu_output);
  static Gradients backward(const char* op, const Problem& problem, const Tensor& grad_output,
                            const std::optional<Tensor>& relu_output, const Tensor& input, const Tensor& weight,
                            const WantedGradients& wanted);
};

struct CudaBackend {
  static Tensor forward(const char* op, const Problem& problem, const Tensor& input, const Tensor& weight,
                        const std::optional<Tensor>& bias, Activation activation);
  static Tensor input_grad(const char* op, const Problem& problem, const Tensor& grad_output,
                           const std::optional<Tensor>& relu_output, const Tensor& weight);
  static Tensor weight_grad(const char* op, const Problem& problem, const Tensor& grad_output,
                            const std::optional<Tensor>& relu_output, const Tensor& input);
  static Tensor bias_grad(const char* op, const Tensor& grad_output, const std::optional<Tensor>& relu_output);
  static Gradients backward(const char* op, const Problem& problem, const Tensor& grad_output,
                            const std::optional<Tensor>& relu_output, const Tensor& input, const Tensor& weight,
                            const WantedGradients& wanted);

  // The CUDA toolkit that this library was built with ("13.0") and its architectures; both empty in a CPU-only build.
  static std::string toolkit();
  static std::string architectures();
};

}  // namespace convt3d
