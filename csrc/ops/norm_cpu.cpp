// A group norm on the CPU: ATen's, in float32 or float64. Its backward on the CPU is ATen's as well, called from
// convt3d/_registrations/group_norm.py.
#include <torch/csrc/stable/ops.h>

#include "epilogue/epilogue.h"
#include "ops/allocation.h"
#include "ops/call_aten.h"
#include "ops/memory_format.h"
#include "ops/norm_backend.h"

namespace convt3d {
namespace {

using torch::headeronly::ScalarType;

// The tensor with this dtype and these strides: a copy, unless it has them.
Tensor copied(const char* op, const Tensor& source, const Int5& strides, int32_t dtype) {
  if (dtype_of(source) == dtype && strides_of(source) == strides) return source;
  Tensor result = allocate(op, sizes_of(source), strides, dtype, device_of(source));
  torch::stable::copy_(result, source);
  return result;
}

// PyTorch's ReLU or LeakyReLU. Those with a slope take a Scalar, which cannot go through the stable ABI.
Tensor activated(const char* op, const Tensor& tensor, double slope) {
  if (slope == 1) return tensor;
  if (slope == 0) return call_aten<1>(op, "aten::relu_", "", tensor)[0];
  Tensor weight = allocate_vector(op, 1, tensor);
  torch::stable::fill_(weight, slope);
  return call_aten<1>(op, "aten::prelu", "", tensor, weight)[0];
}

}  // namespace

NormResult CpuNorm::forward_and_keep(const char* op, const ConvolutionArguments& convolution,
                                     const NormArguments& arguments) {
  const Tensor input = CpuBackend::forward(op, convolution.problem, convolution.input, convolution.weight,
                                           convolution.bias, convolution.activation);
  const bool is_float64 = data_type(dtype_of(input)) == DataType::kFloat64;
  const int32_t wide = is_float64 ? aoti_torch_dtype_float64() : aoti_torch_dtype_float32();
  const Device device = device_of(input);
  if (input.numel() == 0) {
    const auto statistics = [&] {
      return allocate_matrix(op, input.size(0), arguments.groups, aoti_torch_dtype_float64(), device);
    };
    return {allocate(op, sizes_of(input), strides_of(input), arguments.result_dtype, device), input, statistics(),
            statistics()};
  }
  const auto affine = [&](const std::optional<Tensor>& tensor) -> std::optional<Tensor> {
    if (!tensor) return std::nullopt;
    Tensor dense = allocate_vector(op, tensor->size(0), wide, device);
    torch::stable::copy_(dense, *tensor);
    return dense;
  };
  const int64_t positions = input.size(2) * input.size(3) * input.size(4);
  // ATen's kernel for channels_last_3d subtracts squares, and loses what a large mean leaves of the deviation.
  const Tensor rows = copied(op, input, dense_strides(sizes_of(input), MemoryFormat::kContiguous), wide);
  const auto [output, mean, rstd] =
      call_aten<3>(op, "aten::native_group_norm", "", rows, affine(arguments.weight), affine(arguments.bias),
                   input.size(0), input.size(1), positions, arguments.groups, arguments.eps);
  return {copied(op, activated(op, output, arguments.slope), strides_of(input), arguments.result_dtype), input,
          torch::stable::to(mean, ScalarType::Double), torch::stable::to(rstd, ScalarType::Double)};
}

NormOfChannels CpuNorm::of_channels(const char* op, const ConvolutionArguments& convolution,
                                    const NormArguments& arguments) {
  const NormResult kept = forward_and_keep(op, convolution, arguments);
  const int64_t batch = kept.convolved.size(0);
  const int64_t channels = kept.convolved.size(1);
  const Device device = device_of(kept.convolved);
  const auto of_channels = [&](const std::optional<Tensor>& affine, double absent) {
    Tensor result = allocate_vector(op, channels, aoti_torch_dtype_float64(), device);
    if (affine) {
      torch::stable::copy_(result, *affine);
    } else {
      torch::stable::fill_(result, absent);
    }
    return result;
  };
  const Tensor weights = of_channels(arguments.weight, 1);
  const Tensor biases = of_channels(arguments.bias, 0);
  Tensor norms = allocate_matrix(op, batch * channels, kNumbersOfNorm, aoti_torch_dtype_float32(), device);
  auto* norm = static_cast<ChannelNorm*>(norms.mutable_data_ptr());
  const auto* const weight = static_cast<const double*>(weights.const_data_ptr());
  const auto* const bias = static_cast<const double*>(biases.const_data_ptr());
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t c = 0; c < channels; ++c, ++norm) {
      const int64_t statistic = n * arguments.groups + c / (channels / arguments.groups);
      const double mean = static_cast<const double*>(kept.mean.const_data_ptr())[statistic];
      const double scale = static_cast<const double*>(kept.rstd.const_data_ptr())[statistic] * weight[c];
      const auto center = static_cast<float>(mean);
      const double shift = bias[c] - (mean - center) * scale;
      *norm = {center, static_cast<float>(scale), static_cast<float>(shift), 1};
    }
  }
  return {kept.convolved, norms, kept.mean, kept.rstd};
}

Tensor CpuNorm::forward(const char* op, const ConvolutionArguments& convolution, const NormArguments& arguments) {
  return forward_and_keep(op, convolution, arguments).output;
}

}  // namespace convt3d
