// The operators on the CPU: ATen's convolutions (oneDNN where it has them), called through the stable dispatcher.
#include <algorithm>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "core/integer.h"
#include "ops/allocation.h"
#include "ops/backend.h"
#include "ops/call_aten.h"

namespace convt3d {
namespace {

using torch::headeronly::HeaderOnlyArrayRef;
using torch::headeronly::IntHeaderOnlyArrayRef;

IntHeaderOnlyArrayRef list(const Int3& values) { return IntHeaderOnlyArrayRef(values.data(), values.size()); }

Tensor zeroed(Tensor tensor) {
  TORCH_ERROR_CODE_CHECK(aoti_torch_zero_(tensor.get()));
  return tensor;
}

// `length` positions of a dimension from `first` on.
Tensor narrowed(Tensor tensor, int dim, int64_t first, int64_t length) {
  return tensor.size(dim) == length ? tensor : torch::stable::narrow(tensor, dim, first, length);
}

// A problem as ATen is asked it: the stride of a dimension in which the input has one voxel does not matter, so it is
// as small as an output_padding allows.
Problem with_least_stride(Problem problem) {
  for (int axis = 0; axis < 3; ++axis) {
    if (problem.input_size[axis] == 1) {
      problem.stride[axis] = std::min(problem.stride[axis], problem.output_padding[axis] + 1);
    }
  }
  return problem;
}

// Whether oneDNN may compute `problem`. Its strided transposed convolution (brgconv_strided, v3.12) takes scratch
// memory of `width of a block * stride of the width * channels` elements, where the width of a block is a multiple of
// the stride and at most the output's. It counts them in 32 bits: past 2^31 it writes out of bounds, and long before it
// takes gigabytes. The limit here is 256 MiB of float32 for each thread, which a width of 4096 with stride 16 and 1024
// channels just reaches.
bool fits_onednn(const Problem& problem) {
  constexpr int64_t kScratchLimit = int64_t{1} << 26;
  const int64_t stride = problem.stride[2];
  const int64_t width = round_up(problem.output_size(2), stride);
  int64_t elements = 0;
  return !__builtin_mul_overflow(width * stride, std::max(problem.in_channels, problem.out_channels), &elements) &&
         elements <= kScratchLimit;
}

// What ATen is given to convolve. 16-bit tensors go as float32: oneDNN's own 16-bit convolutions in three dimensions go
// wrong on processors with AMX for some strides, paddings and dilations, up to NaN and crashes
// (pytorch/pytorch#169688); and so a sum is rounded once, as on a GPU. What oneDNN must not be given goes as float64,
// which it does not take.
Tensor computable(const Problem& problem, const Tensor& tensor) {
  using torch::headeronly::ScalarType;
  const std::optional<DataType> dtype = data_type(dtype_of(tensor));
  const bool as_float64 = dtype == DataType::kFloat64 || !fits_onednn(problem);
  if (dtype == (as_float64 ? DataType::kFloat64 : DataType::kFloat32)) return tensor;
  return torch::stable::to(tensor, as_float64 ? ScalarType::Double : ScalarType::Float);
}

// A 5-D operand as ATen is given it: computable, and dense. oneDNN's grouped convolutions read a channels-last weight
// wrongly whose width of one element has a stride of 0, as `expand` leaves it (oneDNN 3.12 in torch 2.13), and they
// copy what is not dense themselves.
Tensor operand(const char* op, const Problem& problem, const Tensor& tensor) {
  const Tensor converted = computable(problem, tensor);
  const Int5 sizes = sizes_of(converted);
  const Int5 strides = strides_of(converted);
  const MemoryFormat format = suggest_memory_format(sizes, strides);
  if (strides == dense_strides(sizes, format)) return converted;
  Tensor dense = allocate(op, sizes, format, converted);
  torch::stable::copy_(dense, converted);
  return dense;
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
    source = narrowed(source, dim, 0, sizes[dim]);
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

// The weight gradient's problem as oneDNN can be trusted with it. On processors with AVX512, its float32 weight
// gradient is wrong for some paddings and writes out of bounds (oneDNN 3.12 in torch 2.13, kernel size 4, stride 2,
// padding 3). What sets those paddings apart is not known, so none is given to it: the sum over input voxels i, each
// with the element of grad_output at i * stride + tap * dilation - padding, is the same if grad_output is shifted by
// the padding and zero where it ends. The input voxels whose every element is beyond an end are left out, so that no
// more zeros are added on either side than the kernel reaches, whatever the padding. What remains has neither padding
// nor output_padding: each element of the new grad_output is one that some voxel of the new input meets.
struct UnpaddedWeightGrad {
  Problem problem;
  Int3 first_input{};    // of the input voxels that are left
  Int3 shift{};          // the new grad_output at p is grad_output at p - shift
  bool is_zero = false;  // no input voxel meets an element of grad_output
};

UnpaddedWeightGrad without_padding(const Problem& problem) {
  UnpaddedWeightGrad unpadded{problem};
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t stride = problem.stride[axis];
    const int64_t padding = problem.padding[axis];
    const int64_t reach = problem.dilation[axis] * (problem.kernel_size[axis] - 1);
    const int64_t first = ceil_div(std::max<int64_t>(padding - reach, 0), stride);
    const int64_t last = std::min(problem.input_size[axis] - 1, (problem.output_size(axis) - 1 + padding) / stride);
    unpadded.is_zero |= last < first;
    unpadded.first_input[axis] = first;
    unpadded.shift[axis] = padding - first * stride;
    unpadded.problem.input_size[axis] = last - first + 1;
    unpadded.problem.padding[axis] = 0;
    unpadded.problem.output_padding[axis] = 0;
  }
  unpadded.problem = with_least_stride(unpadded.problem);
  return unpadded;
}

// The elements of grad_output that `unpadded` needs, with zeros where there are none, in the dtype of its input.
Tensor shifted(const char* op, const UnpaddedWeightGrad& unpadded, const Tensor& grad_output, MemoryFormat format,
               const Tensor& input) {
  Tensor source = grad_output;
  Int5 sizes = sizes_of(grad_output);
  Int3 begin{};
  bool has_zeros = false;
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t shift = unpadded.shift[axis];
    const int64_t length = unpadded.problem.output_size(axis);
    const int64_t end = std::min(length, shift + sizes[axis + 2]);
    begin[axis] = std::max<int64_t>(shift, 0);
    source = narrowed(source, axis + 2, begin[axis] - shift, end - begin[axis]);
    has_zeros |= begin[axis] > 0 || end < length;
    sizes[axis + 2] = length;
  }
  if (!has_zeros) return operand(op, unpadded.problem, source);
  const Tensor extended = zeroed(allocate(op, sizes, format, input));
  Tensor inner = extended;
  for (int dim = 2; dim < 5; ++dim) inner = narrowed(inner, dim, begin[dim - 2], source.size(dim));
  torch::stable::copy_(inner, source);
  return extended;
}

// ---- the gradients, from what a ReLU let through of grad_output ----

Tensor input_grad_of(const char* op, const Problem& problem, MemoryFormat format, const Tensor& grad_output,
                     const Tensor& weight) {
  const Int3& size = problem.input_size;
  const Int5 sizes = {problem.batch, problem.in_channels, size[0], size[1], size[2]};
  if (problem.batch == 0) return allocate(op, sizes, format, grad_output);
  // The input gradient is a convolution of grad_output with the same weight. An output_padding of at least the stride
  // (which a larger dilation allows) gives that convolution room for more positions than the input had.
  const Problem asked = with_least_stride(problem);
  const Tensor grad_input =
      call_aten<1>(op, "aten::convolution", "", operand(op, asked, grad_output), operand(op, asked, weight),
                   std::optional<Tensor>(), list(asked.stride), list(problem.padding), list(problem.dilation),
                   /*transposed=*/false, list(Int3{0, 0, 0}), problem.groups)[0];
  return conform(op, grad_input, sizes, format, grad_output);
}

Tensor weight_grad_of(const char* op, const Problem& problem, MemoryFormat format, const Tensor& grad_output,
                      const Tensor& input) {
  const Int3& size = problem.kernel_size;
  const Int5 sizes = {problem.in_channels, problem.out_channels_per_group(), size[0], size[1], size[2]};
  if (problem.batch == 0) return zeroed(allocate(op, sizes, format, input));
  const UnpaddedWeightGrad unpadded = without_padding(problem);
  if (unpadded.is_zero) return zeroed(allocate(op, sizes, format, input));
  const Problem& asked = unpadded.problem;
  Tensor met_input = input;
  for (int axis = 0; axis < 3; ++axis) {
    met_input = narrowed(met_input, axis + 2, unpadded.first_input[axis], asked.input_size[axis]);
  }
  met_input = operand(op, asked, met_input);
  const Tensor met_grad_output = shifted(op, unpadded, grad_output, format, met_input);
  // ATen reads only the size of this weight, as its gradient does not depend on its value.
  const Tensor weight = allocate(op, sizes, MemoryFormat::kContiguous, met_input);
  const std::array<bool, 3> output_mask = {false, true, false};
  const Tensor grad_weight = call_aten<3>(
      op, "aten::convolution_backward", "", met_grad_output, met_input, weight, std::optional<IntHeaderOnlyArrayRef>(),
      list(asked.stride), list(asked.padding), list(asked.dilation), /*transposed=*/true, list(asked.output_padding),
      asked.groups, HeaderOnlyArrayRef<bool>(output_mask.data(), output_mask.size()))[1];
  return conform(op, grad_weight, sizes, format, input);
}

Tensor bias_grad_of(const Tensor& grad_output) {
  const std::array<int64_t, 4> dims = {0, 2, 3, 4};
  return torch::stable::sum(grad_output, IntHeaderOnlyArrayRef(dims.data(), dims.size()));
}

bool has_no_padding(const Problem& problem) {
  const Int3 none{0, 0, 0};
  return problem.padding == none && problem.output_padding == none;
}

// Computes the gradients that are wanted by one call of ATen, for a problem without padding: its weight gradient is
// right in oneDNN as it is.
Gradients gradients_of_unpadded(const char* op, const Problem& problem, MemoryFormat format, const Tensor& grad_output,
                                const Tensor& input, const Tensor& weight, const WantedGradients& wanted) {
  const Problem asked = with_least_stride(problem);
  const std::array<int64_t, 1> bias_size = {problem.out_channels};
  const std::array<Tensor, 3> results = call_aten<3>(
      op, "aten::convolution_backward", "", operand(op, asked, grad_output), operand(op, asked, input),
      operand(op, asked, weight), std::optional<IntHeaderOnlyArrayRef>({bias_size.data(), bias_size.size()}),
      list(asked.stride), list(asked.padding), list(asked.dilation), /*transposed=*/true, list(asked.output_padding),
      asked.groups, HeaderOnlyArrayRef<bool>(wanted.data(), wanted.size()));
  Gradients gradients;
  if (wanted[0]) gradients[0] = conform(op, results[0], sizes_of(input), format, input);
  if (wanted[1]) gradients[1] = conform(op, results[1], sizes_of(weight), format, input);
  if (wanted[2]) {
    gradients[2] = results[2];
    if (dtype_of(results[2]) != dtype_of(input)) {
      gradients[2] = allocate_vector(op, problem.out_channels, input);
      torch::stable::copy_(*gradients[2], results[2]);
    }
  }
  return gradients;
}

}  // namespace

Tensor CpuBackend::forward(const char* op, const Problem& problem, const Tensor& input, const Tensor& weight,
                           const std::optional<Tensor>& bias, Activation activation) {
  const Int3 size = problem.output_size();
  const Int5 sizes = {problem.batch, problem.out_channels, size[0], size[1], size[2]};
  const MemoryFormat format = result_format({&input, &weight});
  if (problem.batch == 0) return allocate(op, sizes, format, input);
  const Problem asked = with_least_stride(problem);
  const std::optional<Tensor> computable_bias = bias ? std::optional<Tensor>(computable(asked, *bias)) : std::nullopt;
  Tensor output = call_aten<1>(op, "aten::convolution", "", operand(op, asked, input), operand(op, asked, weight),
                               computable_bias, list(asked.stride), list(problem.padding), list(problem.dilation),
                               /*transposed=*/true, list(problem.output_padding), problem.groups)[0];
  if (activation == Activation::kRelu) output = call_aten<1>(op, "aten::relu_", "", output)[0];
  return conform(op, output, sizes, format, input);
}

Tensor CpuBackend::input_grad(const char* op, const Problem& problem, const Tensor& grad_output,
                              const std::optional<Tensor>& relu_output, const Tensor& weight) {
  return input_grad_of(op, problem, result_format({&grad_output, &weight}), mask(op, grad_output, relu_output), weight);
}

Tensor CpuBackend::weight_grad(const char* op, const Problem& problem, const Tensor& grad_output,
                               const std::optional<Tensor>& relu_output, const Tensor& input) {
  return weight_grad_of(op, problem, result_format({&grad_output, &input}), mask(op, grad_output, relu_output), input);
}

Tensor CpuBackend::bias_grad(const char* op, const Tensor& grad_output, const std::optional<Tensor>& relu_output) {
  return bias_grad_of(mask(op, grad_output, relu_output));
}

Gradients CpuBackend::backward(const char* op, const Problem& problem, const Tensor& grad_output,
                               const std::optional<Tensor>& relu_output, const Tensor& input, const Tensor& weight,
                               const WantedGradients& wanted) {
  const MemoryFormat format = result_format({&grad_output, &input, &weight});
  const Tensor masked = mask(op, grad_output, relu_output);
  if (problem.batch != 0 && has_no_padding(problem)) {
    return gradients_of_unpadded(op, problem, format, masked, input, weight, wanted);
  }
  Gradients gradients;
  if (wanted[0]) gradients[0] = input_grad_of(op, problem, format, masked, weight);
  if (wanted[1]) gradients[1] = weight_grad_of(op, problem, format, masked, input);
  if (wanted[2]) gradients[2] = bias_grad_of(masked);
  return gradients;
}

}  // namespace convt3d
