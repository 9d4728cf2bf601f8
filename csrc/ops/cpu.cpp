// The operators on the CPU: ATen's convolutions (oneDNN where it has them), called through the stable dispatcher.
#include <algorithm>
#include <stdexcept>
#include <string>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "ops/allocation.h"
#include "ops/backend.h"
#include "ops/torch_error.h"

namespace convt3d {
namespace {

using torch::headeronly::HeaderOnlyArrayRef;
using torch::headeronly::IntHeaderOnlyArrayRef;
using torch::stable::detail::from;
using torch::stable::detail::to;

IntHeaderOnlyArrayRef list(const Int3& values) { return IntHeaderOnlyArrayRef(values.data(), values.size()); }

// Calls an ATen operator with `results` tensor results and returns them in their order; a result that was not asked for
// comes as an undefined tensor.
template <size_t results, typename... Arguments>
std::array<Tensor, results> call_aten(const char* op, const char* aten_op, const char* overload,
                                      const Arguments&... arguments) {
  static_assert(sizeof...(arguments) >= results, "the dispatcher returns the results in the arguments' places");
  std::array<StableIValue, sizeof...(arguments)> stack{from(arguments)...};
  if (torch_call_dispatcher(aten_op, overload, stack.data(), TORCH_ABI_VERSION) != TORCH_SUCCESS) {
    const std::string reason = torch_error();
    throw std::runtime_error(std::string(op) + ": " + aten_op + " failed on the CPU: " +
                             (reason.empty() ? "PyTorch has written the reason to stderr" : reason));
  }
  if constexpr (results == 1) {
    return {to<Tensor>(stack[0])};
  } else {
    static_assert(results == 3, "ATen's convolutions return one tensor or three");
    return {to<Tensor>(stack[0]), to<Tensor>(stack[1]), to<Tensor>(stack[2])};
  }
}

Tensor zeroed(Tensor tensor) {
  TORCH_ERROR_CODE_CHECK(aoti_torch_zero_(tensor.get()));
  return tensor;
}

// What ATen is given to convolve: 16-bit tensors as float32. oneDNN's own 16-bit convolutions in three dimensions go
// wrong on processors with AMX for some strides, paddings and dilations, up to NaN and crashes
// (pytorch/pytorch#169688); and so a sum is rounded once, as on a GPU.
Tensor computable(const Tensor& tensor) {
  if (element_size(*data_type(dtype_of(tensor))) > 2) return tensor;
  return torch::stable::to(tensor, torch::headeronly::ScalarType::Float);
}

// ATen's result as the operator's: it may be of a wider dtype, larger than `sizes` at the end of each dimension, and in
// another memory format. The operand `like` has the dtype.
Tensor conform(const char* op, const Tensor& tensor, const Int5& sizes, MemoryFormat format, const Tensor& like) {
  if (dtype_of(tensor) == dtype_of(like) && sizes_of(tensor) == sizes &&
      strides_of(tensor) == dense_strides(sizes, format)) {
    return tensor;
  }
  Tensor source = tensor;
  for (int dim = 0; dim < 5; ++dim) {
    if (source.size(dim) != sizes[dim]) source = torch::stable::narrow(source, dim, 0, sizes[dim]);
  }
  Tensor result = allocate(op, sizes, format, like);
  torch::stable::copy_(result, source);
  return result;
}

// Zero where relu_output <= 0, else grad_output (so that a NaN passes, as in ATen's own ReLU backward, which takes a
// Scalar and cannot be called through the stable ABI).
Tensor mask(const char* op, const Tensor& grad_output, const std::optional<Tensor>& relu_output) {
  if (!relu_output) return grad_output;
  const Tensor zero = zeroed(allocate_vector(op, 1, grad_output));
  const Tensor blocked = call_aten<1>(op, "aten::le", "Tensor", *relu_output, zero)[0];
  return call_aten<1>(op, "aten::where", "self", blocked, zero, grad_output)[0];
}

}  // namespace

Tensor CpuBackend::forward(const char* op, const Problem& problem, const Tensor& input, const Tensor& weight,
                           const std::optional<Tensor>& bias, Activation activation) {
  const Int3 size = problem.output_size();
  const Int5 sizes = {problem.batch, problem.out_channels, size[0], size[1], size[2]};
  const MemoryFormat format = result_format(input, weight);
  if (problem.batch == 0) return allocate(op, sizes, format, input);
  const std::optional<Tensor> computable_bias = bias ? std::optional<Tensor>(computable(*bias)) : std::nullopt;
  Tensor output = call_aten<1>(op, "aten::convolution", "", computable(input), computable(weight), computable_bias,
                               list(problem.stride), list(problem.padding), list(problem.dilation), /*transposed=*/true,
                               list(problem.output_padding), problem.groups)[0];
  if (activation == Activation::kRelu) output = call_aten<1>(op, "aten::relu_", "", output)[0];
  return conform(op, output, sizes, format, input);
}

Tensor CpuBackend::input_grad(const char* op, const Problem& problem, const Tensor& grad_output,
                              const std::optional<Tensor>& relu_output, const Tensor& weight) {
  const Int3& size = problem.input_size;
  const Int5 sizes = {problem.batch, problem.in_channels, size[0], size[1], size[2]};
  const MemoryFormat format = result_format(grad_output, weight);
  if (problem.batch == 0) return allocate(op, sizes, format, grad_output);
  // The input gradient is a convolution of grad_output with the same weight. An output_padding of at least the stride
  // (which a larger dilation allows) gives that convolution room for more positions than the input had.
  const Tensor grad_input =
      call_aten<1>(op, "aten::convolution", "", computable(mask(op, grad_output, relu_output)), computable(weight),
                   std::optional<Tensor>(), list(problem.stride), list(problem.padding), list(problem.dilation),
                   /*transposed=*/false, list(Int3{0, 0, 0}), problem.groups)[0];
  return conform(op, grad_input, sizes, format, grad_output);
}

Tensor CpuBackend::weight_grad(const char* op, const Problem& problem, const Tensor& grad_output,
                               const std::optional<Tensor>& relu_output, const Tensor& input) {
  const Int3& size = problem.kernel_size;
  const Int5 sizes = {problem.in_channels, problem.out_channels_per_group(), size[0], size[1], size[2]};
  const MemoryFormat format = result_format(grad_output, input);
  if (problem.batch == 0) return zeroed(allocate(op, sizes, format, input));
  const Tensor computable_input = computable(input);
  // ATen reads only the size of this weight: its gradient does not depend on its value.
  const Tensor weight = zeroed(allocate(op, sizes, MemoryFormat::kContiguous, computable_input));
  const std::array<bool, 3> output_mask = {false, true, false};
  const Tensor grad_weight =
      call_aten<3>(op, "aten::convolution_backward", "", computable(mask(op, grad_output, relu_output)),
                   computable_input, weight, std::optional<IntHeaderOnlyArrayRef>(), list(problem.stride),
                   list(problem.padding), list(problem.dilation), /*transposed=*/true, list(problem.output_padding),
                   problem.groups, HeaderOnlyArrayRef<bool>(output_mask.data(), output_mask.size()))[1];
  return conform(op, grad_weight, sizes, format, input);
}

Tensor CpuBackend::bias_grad(const char* op, const Tensor& grad_output, const std::optional<Tensor>& relu_output) {
  const std::array<int64_t, 4> dims = {0, 2, 3, 4};
  return torch::stable::sum(mask(op, grad_output, relu_output), IntHeaderOnlyArrayRef(dims.data(), dims.size()));
}

}  // namespace convt3d
