// The operators on a CUDA device: allocation and the current stream, then the kernels of csrc/kernels.
#include <array>
#include <optional>
#include <string>

#include <torch/csrc/stable/ops.h>

#include "core/build.h"
#include "core/output_view.h"
#include "kernels/api.h"
#include "ops/backend.h"
#include "ops/cuda_call.h"
#include "ops/cuda_forward.h"
#include "ops/float32_mode.h"

namespace convt3d {
namespace {

Operands operands(const ConstTensor& first, const ConstTensor& second, const ConstTensor& mask,
                  const MutableTensor& result) {
  return {operand_traits(first), operand_traits(second), operand_traits(mask), operand_traits(result)};
}

void zero(const Tensor& tensor) { TORCH_ERROR_CODE_CHECK(aoti_torch_zero_(tensor.get())); }

// ---- the gradients; the device of grad_output is the current one ----

Tensor empty_input_grad(const char* op, const Problem& problem, MemoryFormat format, const Tensor& grad_output) {
  const Int3& size = problem.input_size;
  return allocate_result(op, {problem.batch, problem.in_channels, size[0], size[1], size[2]}, format, grad_output);
}

Tensor empty_weight_grad(const char* op, const Problem& problem, MemoryFormat format, const Tensor& grad_output) {
  const Int3& size = problem.kernel_size;
  return allocate_result(op, {problem.in_channels, problem.out_channels_per_group(), size[0], size[1], size[2]}, format,
                         grad_output);
}

// Whether a plan is for another layout than that of a weight or of its gradient.
bool must_join(const Problem& problem, const OperatorPlan& plan, const std::array<int64_t, 5>& stride) {
  return joins_weight(plan) && !joins_width(stride, problem.out_channels);
}

// The weight in a layout that a plan is for.
Tensor joined_weight(const char* op, const Problem& problem, const OperatorPlan& plan, const Tensor& weight) {
  if (!must_join(problem, plan, view(weight).stride)) return weight;
  Tensor copy = empty_weight_grad(op, problem, MemoryFormat::kChannelsLast3d, weight);
  torch::stable::copy_(copy, weight);
  return copy;
}

// Has a gradient of the weight written in a layout that a plan is for.
template <typename Write>
void write_weight_grad(const char* op, const Problem& problem, const OperatorPlan& plan, Tensor grad_weight,
                       Write write) {
  if (!must_join(problem, plan, mutable_view(grad_weight).stride)) return write(mutable_view(grad_weight));
  const Tensor joined = empty_weight_grad(op, problem, MemoryFormat::kChannelsLast3d, grad_weight);
  write(mutable_view(joined));
  torch::stable::copy_(grad_weight, joined);
}

void run_input_grad(const char* op, const Problem& problem, const Tensor& grad_output,
                    const std::optional<Tensor>& relu_output, const Tensor& weight, const Tensor& grad_input) {
  if (problem.batch == 0) return;
  const DataType dtype = kernel_dtype(grad_output);
  const ConstTensor gy = view(grad_output);
  const ConstTensor mask = view(relu_output);
  const ConstTensor w = view(weight);
  const MutableTensor gx = mutable_view(grad_input);
  const auto plan = plan_call(Operator::kInputGrad, problem, dtype, float32_mode(), operands(gy, w, mask, gx));
  const Scratch workspace(op, workspace_bytes(*plan), grad_output);
  const Tensor joined = joined_weight(op, problem, *plan, weight);
  convt3d::input_grad(problem, *plan, dtype, gy, mask, view(joined), gx, workspace.data(), current_stream(grad_output));
}

void run_weight_grad(const char* op, const Problem& problem, const Tensor& grad_output,
                     const std::optional<Tensor>& relu_output, const Tensor& input, const Tensor& grad_weight) {
  if (problem.batch == 0) return zero(grad_weight);
  const DataType dtype = kernel_dtype(grad_output);
  const ConstTensor gy = view(grad_output);
  const ConstTensor mask = view(relu_output);
  const ConstTensor x = view(input);
  const MutableTensor gw = mutable_view(grad_weight);
  const auto plan = plan_call(Operator::kWeightGrad, problem, dtype, float32_mode(), operands(gy, x, mask, gw));
  const Scratch workspace(op, workspace_bytes(*plan), grad_output);
  write_weight_grad(op, problem, *plan, grad_weight, [&](const MutableTensor& written) {
    convt3d::weight_grad(problem, *plan, dtype, gy, mask, x, written, workspace.data(), current_stream(grad_output));
  });
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

// Both gradients at least; that of the bias where there is one to be written.
void run_backward(const char* op, const Problem& problem, const Tensor& grad_output,
                  const std::optional<Tensor>& relu_output, const Tensor& input, const Tensor& weight,
                  const Gradients& gradients) {
  const DataType dtype = kernel_dtype(grad_output);
  const ConstTensor gy = view(grad_output);
  const ConstTensor mask = view(relu_output);
  const ConstTensor x = view(input);
  const MutableTensor gx = mutable_view(*gradients[0]);
  Operands tensors = operands(gy, x, mask, gx);
  tensors.weight = operand_traits(view(weight));
  const auto plan = plan_call(gradients[2] ? Operator::kBackwardAndBias : Operator::kBackward, problem, dtype,
                              float32_mode(), tensors);
  const Scratch workspace(op, workspace_bytes(*plan), grad_output);
  const Tensor joined = joined_weight(op, problem, *plan, weight);
  write_weight_grad(op, problem, *plan, *gradients[1], [&](const MutableTensor& written) {
    convt3d::backward(problem, *plan, dtype, gy, mask, x, view(joined), gx, written,
                      gradients[2] ? gradients[2]->mutable_data_ptr() : nullptr, workspace.data(),
                      current_stream(grad_output));
  });
}

}  // namespace

Tensor CudaBackend::forward(const char* op, const Problem& problem, const Tensor& input, const Tensor& weight,
                            const std::optional<Tensor>& bias, Activation activation) {
  const DeviceGuard guard(device_of(input).index);
  const CudaForward forward(op, problem, input, weight, bias, activation);
  forward.run();
  return forward.output();
}

Tensor CudaBackend::input_grad(const char* op, const Problem& problem, const Tensor& grad_output,
                               const std::optional<Tensor>& relu_output, const Tensor& weight) {
  const DeviceGuard guard(device_of(grad_output).index);
  Tensor grad_input = empty_input_grad(op, problem, result_format({&grad_output, &weight}), grad_output);
  run_input_grad(op, problem, grad_output, relu_output, weight, grad_input);
  return grad_input;
}

Tensor CudaBackend::weight_grad(const char* op, const Problem& problem, const Tensor& grad_output,
                                const std::optional<Tensor>& relu_output, const Tensor& input) {
  const DeviceGuard guard(device_of(grad_output).index);
  Tensor grad_weight = empty_weight_grad(op, problem, result_format({&grad_output, &input}), grad_output);
  run_weight_grad(op, problem, grad_output, relu_output, input, grad_weight);
  return grad_weight;
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
  if (wanted[0]) gradients[0] = empty_input_grad(op, problem, format, grad_output);
  if (wanted[1]) gradients[1] = empty_weight_grad(op, problem, format, grad_output);
  if (wanted[0] && wanted[1] && problem.batch > 0) {
    if (wanted[2]) gradients[2] = allocate_vector(op, grad_output.size(1), grad_output);
    run_backward(op, problem, grad_output, relu_output, input, weight, gradients);
    return gradients;
  }
  if (wanted[0]) run_input_grad(op, problem, grad_output, relu_output, weight, *gradients[0]);
  if (wanted[1]) run_weight_grad(op, problem, grad_output, relu_output, input, *gradients[1]);
  if (wanted[2]) gradients[2] = bias_grad_of(op, grad_output, relu_output);
  return gradients;
}

std::string CudaBackend::toolkit() { return CONVT3D_CUDA_VERSION; }

std::string CudaBackend::architectures() { return compiled_architectures(); }

}  // namespace convt3d
