// A group norm on one device, on checked arguments: what csrc/ops/norm_operators.h needs of a device.
#pragma once

#include <optional>

#include "epilogue/epilogue.h"
#include "ops/backend.h"
#include "ops/tensor_info.h"

namespace convt3d {

struct NormArguments {
  int64_t groups = 1;
  const std::optional<Tensor>& weight;  // [C], like `bias` of the input's dtype or float32
  const std::optional<Tensor>& bias;
  double eps = 0;
  double slope = 1;          // of the activation behind the norm: 1 is none, 0 a ReLU
  int32_t result_dtype = 0;  // the input's, or float32
};

// The arguments of the convolution before the norm.
struct ConvolutionArguments {
  const Problem& problem;
  const Tensor& input;
  const Tensor& weight;
  const std::optional<Tensor>& bias;
  Activation activation;
};

// The norm's result, and what its derivatives need: the convolution's, and the statistics [N, groups] in float64.
struct NormResult {
  Tensor output;
  Tensor convolved;
  Tensor mean;
  Tensor rstd;
};

constexpr int64_t kNumbersOfNorm = sizeof(ChannelNorm) / sizeof(float);

// All but the norm's application: the convolution's result, the norm of each channel, and the statistics.
struct NormOfChannels {
  Tensor convolved;
  Tensor norms;  // [N * C, kNumbersOfNorm] in float32, each row a ChannelNorm
  Tensor mean;
  Tensor rstd;
};

struct CpuNorm {
  static Tensor forward(const char* op, const ConvolutionArguments& convolution, const NormArguments& arguments);
  static NormResult forward_and_keep(const char* op, const ConvolutionArguments& convolution,
                                     const NormArguments& arguments);
  static NormOfChannels of_channels(const char* op, const ConvolutionArguments& convolution,
                                    const NormArguments& arguments);
};

struct CudaNorm {
  static Tensor forward(const char* op, const ConvolutionArguments& convolution, const NormArguments& arguments);
  static NormResult forward_and_keep(const char* op, const ConvolutionArguments& convolution,
                                     const NormArguments& arguments);
  static NormOfChannels of_channels(const char* op, const ConvolutionArguments& convolution,
                                    const NormArguments& arguments);
  // The gradients of the input or, with `relu`, of the argument of the ReLU that it is the output of, and of weight
  // and bias.
  static Gradients backward(const char* op, const Tensor& grad_output, const Tensor& input, const Tensor& mean,
                            const Tensor& rstd, const NormArguments& arguments, bool relu,
                            const WantedGradients& wanted);
};

}  // namespace convt3d
