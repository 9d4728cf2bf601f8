// The operators on a CUDA device: allocation and the current stream, then the kernels of csrc/kernels.
#include <optional>
#include <stdexcept>
#include <string>

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/tensor.h>

#include "core/build.h"
#include "kernels/api.h"
#include "ops/allocation.h"
#include "ops/backend.h"
#include "ops/float32_mode.h"

// Absent from CPU builds of PyTorch. A weak reference lets this library load there too, where nothing calls it.
#pragma weak aoti_torch_get_current_cuda_stream

namespace convt3d {
namespace {

using torch::stable::accelerator::DeviceGuard;

Stream current_stream(const Tensor& tensor) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device_of(tensor).index, &stream));
  return stream;
}

ConstTensor view(const Tensor& tensor) { return {tensor.const_data_ptr(), strides_of(tensor)}; }
ConstTensor view(const std::optional<Tensor>& tensor) { return tensor ? view(*tensor) : ConstTensor{}; }
ConstVector view_vector(const std::optional<Tensor>& tensor) {
  return tensor ? ConstVector{tensor->const_data_ptr(), tensor->stride(0)} : ConstVector{};
}
MutableTensor mutable_view(const Tensor& tensor) { return {tensor.mutable_data_ptr(), strides_of(tensor)}; }

Operands operands(const ConstTensor& first, const ConstTensor& second, const ConstTensor& mask,
                  const MutableTensor& result) {
  return {operand_traits(first), operand_traits(second), operand_traits(mask), operand_traits(result)};
}

DataType kernel_dtype(const Tensor& tensor) { return *data_type(dtype_of(tensor)); }

// Before torch 2.13, PyTorch prints a backtrace when its allocator fails under the stable ABI. What can never fit is
// refused here instead, in silence; asking the driver is left to requests large enough to be in doubt.
void check_fits_device(const char* op, int64_t bytes, const Tensor& like) {
  constexpr int64_t kAlwaysFits = int64_t{1} << 30;
  if (bytes <= kAlwaysFits) return;
  const int64_t total = device_total_memory();
  if (bytes > total) {
    throw_out_of_memory(op, bytes, device_of(like), "the device has " + std::to_string(total) + " bytes");
  }
}

// A failed allocation can also be the first sign of an earlier kernel's fault: then the driver, asked anything, names
// it.
template <typename Allocate>
Tensor allocate_or_explain(Allocate&& allocate_tensor) {
  try {
    return allocate_tensor();
  } catch (const std::runtime_error&) {
    device_total_memory();
    throw;
  }
}

Tensor allocate_result(const char* op, const Int5& sizes, MemoryFormat format, const Tensor& like) {
  int64_t bytes = element_size(kernel_dtype(like));
  for (int64_t size : sizes) bytes *= size;
  check_fits_device(op, bytes, like);
  return allocate_or_explain([&] { return allocate(op, sizes, format, like); });
}

// Freed on return: PyTorch reuses the memory only for work that comes later on the same stream.
class Scratch {
 public:
  Scratch(const char* op, int64_t bytes, const Tensor& like) {
    if (bytes == 0) return;  // asking the allocator for nothing takes its time too
    check_fits_device(op, bytes, like);
    tensor_ = allocate_or_explain([&] { return allocate_workspace(op, bytes, like); });
  }
  void* data() const { return tensor_ ? tensor_->mutable_data_ptr() : nullptr; }

 private:
  std::optional<Tensor> tensor_;
};

void zero(const Tensor& tensor) { TORCH_ERROR_CODE_CHECK(aoti_torch_zero_(tensor.get())); }

// ---- the gradients; the device of grad_output is the current one ----

Tensor input_grad_of(const char* op, const Problem& problem, MemoryFormat format, const Tensor& grad_output,
                     const std::optional<Tensor>& relu_output, const Tensor& weight) {
  const Int3& size = problem.input_size;
  Tensor grad_input =
      allocate_result(op, {problem.batch, problem.in_channels, size[0], size[1], size[2]}, format, grad_output);
  if (problem.batch == 0) return grad_input;
  const DataType dtype = kernel_dtype(grad_output);
  const ConstTensor gy = view(grad_output);
  const ConstTensor mask = view(relu_output);
  const ConstTensor w = view(weight);
  const MutableTensor gx = mutable_view(grad_input);
  const auto plan = plan_call(Operator::kInputGrad, problem, dtype, float32_mode(), operands(gy, w, mask, gx));
  const Scratch workspace(op, workspace_bytes(*plan), grad_output);
  convt3d::input_grad(problem, *plan, dtype, gy, mask, w, gx, workspace.data(), current_stream(grad_output));
  return grad_input;
}

Tensor weight_grad_of(const char* op, const Problem& problem, MemoryFormat format, const Tensor& grad_output,
                      const std::optional<Tensor>& relu_output, const Tensor& input) {
  const Int3& size = problem.kernel_size;
  Tensor grad_weight = allocate_result(
      op, {problem.in_channels, problem.out_channels_per_group(), size[0], size[1], size[2]}, format, grad_output);
  if (problem.batch == 0) {
    zero(grad_weight);
    return grad_weight;
  }
  const DataType dtype = kernel_dtype(grad_output);
  const ConstTensor gy = view(grad_output);
  const ConstTensor mask = view(relu_output);
  const ConstTensor x = view(input);
  const MutableTensor gw = mutable_view(grad_weight);
  const auto plan = plan_call(Operator::kWeightGrad, problem, dtype, float32_mode(), operands(gy, x, mask, gw));
  const Scratch workspace(op, workspace_bytes(*plan), grad_output);
  convt3d::weight_grad(problem, *plan, dtype, gy, mask, x, gw, workspace.data(), current_stream(grad_output));
  return grad_weight;
}

Tensor bias_grad_of(const char* op, const Tensor& grad_output, const std::optional<Tensor>& relu_output) {
  Tensor grad_bias = allocate_vector(op, grad_output.size(1), grad_output);
  if (grad_output.numel() == 0) {
    zero(grad_bias);
    return grad_bias;
  }
  const Problem problem = bias_grad_problem(sizes_of(grad_output));
  const DataType dtype = kernel_dtype(grad_output);
  const ConstTensor gy = view(grad_output);
  const ConstTensor mask = view(relu_output);
  const auto plan = plan_call(Operator::kBiasGrad, problem, dtype, Float32Mode::kIeee, operands(gy, {}, mask, {}));
  const Scratch workspace(op, workspace_bytes(*plan), grad_output);
  convt3d::bias_grad(problem, *plan, dtype, gy, mask, grad_bias.mutable_data_ptr(), workspace.data(),
                     current_stream(grad_output));
  return grad_bias;
}

}  // namespace

Tensor CudaBackend::forward(const char* op, const Problem& problem, const Tensor& input, const Tensor& weight,
                            const std::optional<Tensor>& bias, Activation activation) {
  const DeviceGuard guard(device_of(input).index);
  const Int3 size = problem.output_size();
  Tensor output = allocate_result(op, {problem.batch, problem.out_channels, size[0], size[1], size[2]},
                                  result_format({&input, &weight}), input);
  if (problem.batch == 0) return output;
  const DataType dtype = kernel_dtype(input);
  const ConstTensor x = view(input);
  const ConstTensor w = view(weight);
  const MutableTensor y = mutable_view(output);
  const auto plan = plan_call(Operator::kForward, problem, dtype, float32_mode(), operands(x, w, {}, y));
  const Scratch workspace(op, workspace_bytes(*plan), input);
  convt3d::forward(problem, *plan, dtype, x, w, {view_vector(bias), activation}, y, workspace.data(),
                   current_stream(input));
  return output;
}

Tensor CudaBackend::input_grad(const char* op, const Problem& problem, const Tensor& grad_output,
                               const std::optional<Tensor>& relu_output, const Tensor& weight) {
  const DeviceGuard guard(device_of(grad_output).index);
  return input_grad_of(op, problem, result_format({&grad_output, &weight}), grad_output, relu_output, weight);
}

Tensor CudaBackend::weight_grad(const char* op, const Problem& problem, const Tensor& grad_output,
                                const std::optional<Tensor>& relu_output, const Tensor& input) {
  const DeviceGuard guard(device_of(grad_output).index);
  return weight_grad_of(op, problem, result_format({&grad_output, &input}), grad_output, relu_output, input);
}

Tensor CudaBackend::bias_grad(const char* op, const Tensor& grad_output, const std::optional<Tensor>& relu_output) {
  const DeviceGuard guard(device_of(grad_output).index);
  return bias_grad_of(op, grad_output, relu_output);
}

Gradients CudaBackend::backward(const char* op, const Problem& problem, const Tensor& grad_output,
                                const std::optional<Tensor>& relu_output, const Tensor& input, const Tensor& weight,
                                const WantedGradients& wanted) {
  const DeviceGuard guard(device_of(grad_output).index);
  const MemoryFormat format = result_format({&grad_output, &input, &weight});
  Gradients gradients;
  if (wanted[0]) gradients[0] = input_grad_of(op, problem, format, grad_output, relu_output, weight);
  if (wanted[1]) gradients[1] = weight_grad_of(op, problem, format, grad_output, relu_output, input);
  if (wanted[2]) gradients[2] = bias_grad_of(op, grad_output, relu_output);
  return gradients;
}

std::string CudaBackend::toolkit() { return CONVT3D_CUDA_VERSION; }

std::string CudaBackend::architectures() { return compiled_architectures(); }

}  // namespace convt3d
