// A group norm on a CUDA device: memory and the current stream, then the kernels of csrc/norm.
#include <torch/csrc/stable/ops.h>

#include "kernels/norm_api.h"
#include "ops/cuda_call.h"
#include "ops/norm_backend.h"

namespace convt3d {
namespace {

Tensor allocate_like(const char* op, const Tensor& like, int32_t dtype) {
  const int64_t bytes = element_size(*data_type(dtype)) * like.numel();
  check_fits_device(op, bytes, like);
  return allocate_or_explain([&] { return allocate(op, sizes_of(like), strides_of(like), dtype, device_of(like)); });
}

norm::Arguments kernel_arguments(const Tensor& input, const NormArguments& arguments) {
  const std::optional<Tensor>& affine = arguments.weight ? arguments.weight : arguments.bias;
  const bool is_float32 =
      affine ? dtype_of(*affine) == aoti_torch_dtype_float32() : dtype_of(input) != aoti_torch_dtype_float64();
  return {view_vector(arguments.weight), view_vector(arguments.bias), is_float32, arguments.slope, arguments.eps};
}

void run(const char* op, const Tensor& input, const NormArguments& arguments, const Tensor& output,
         const norm::Statistics& statistics) {
  if (input.numel() == 0) return;
  const DataType dtype = kernel_dtype(input);
  const norm::Plan plan = norm::make_plan(sizes_of(input), strides_of(input), arguments.groups, dtype);
  const Scratch workspace(op, plan.workspace_bytes, input);
  group_norm(sizes_of(input), arguments.groups, plan, dtype, *data_type(arguments.result_dtype), view(input),
             kernel_arguments(input, arguments), mutable_view(output), statistics, workspace.data(),
             current_stream(input));
}

Tensor allocate_statistics(const char* op, const Tensor& input, int64_t groups) {
  return allocate_or_explain(
      [&] { return allocate_matrix(op, input.size(0), groups, aoti_torch_dtype_float64(), device_of(input)); });
}

// Statistics without gaps.
Tensor dense(const char* op, const Tensor& statistic) {
  const int64_t groups = statistic.size(1);
  if (statistic.stride(1) == 1 && statistic.stride(0) == groups) return statistic;
  Tensor result = allocate_statistics(op, statistic, groups);
  torch::stable::copy_(result, statistic);
  return result;
}

// What kernels take: its positions are equally far apart, and no two elements share a place.
Tensor as_input(const char* op, const Tensor& input) {
  const Int5 sizes = sizes_of(input);
  const Int5 strides = strides_of(input);
  const MemoryFormat format = suggest_memory_format(sizes, strides);
  if (input.numel() == 0 || strides == dense_strides(sizes, format)) return input;
  Tensor result = allocate_result(op, sizes, format, input);
  torch::stable::copy_(result, input);
  return result;
}

}  // namespace

Tensor CudaNorm::apply(const char* op, const Tensor& input, const NormArguments& arguments) {
  const DeviceGuard guard(device_of(input).index);
  const bool in_place = arguments.result_dtype == dtype_of(input);
  const Tensor output = in_place ? input : allocate_like(op, input, arguments.result_dtype);
  run(op, input, arguments, output, {nullptr, nullptr});
  return output;
}

NormResult CudaNorm::apply_and_keep(const char* op, const Tensor& input, const NormArguments& arguments) {
  const DeviceGuard guard(device_of(input).index);
  NormResult result{allocate_like(op, input, arguments.result_dtype), allocate_statistics(op, input, arguments.groups),
                    allocate_statistics(op, input, arguments.groups)};
  run(op, input, arguments, result.output,
      {static_cast<double*>(result.mean.mutable_data_ptr()), static_cast<double*>(result.rstd.mutable_data_ptr())});
  return result;
}

Gradients CudaNorm::backward(const char* op, const Tensor& grad_output, const Tensor& given_input, const Tensor& mean,
                             const Tensor& rstd, const NormArguments& arguments, bool relu,
                             const WantedGradients& wanted) {
  const DeviceGuard guard(device_of(given_input).index);
  const Tensor input = as_input(op, given_input);
  const norm::Arguments of_kernel = kernel_arguments(input, arguments);
  const int32_t affine_dtype = of_kernel.affine_is_float32 ? aoti_torch_dtype_float32() : dtype_of(input);
  Gradients gradients;
  if (wanted[0]) gradients[0] = allocate_like(op, input, dtype_of(input));
  for (const int i : {1, 2}) {
    if (!wanted[i]) continue;
    gradients[i] =
        allocate_or_explain([&] { return allocate_vector(op, input.size(1), affine_dtype, device_of(input)); });
  }
  if (input.numel() == 0) {
    for (const std::optional<Tensor>& gradient : gradients) {
      if (gradient) TORCH_ERROR_CODE_CHECK(aoti_torch_zero_(gradient->get()));
    }
    return gradients;
  }
  Tensor grad = grad_output;
  if (!norm::has_position_stride(sizes_of(grad), strides_of(grad))) {
    grad = allocate_like(op, input, dtype_of(grad_output));
    torch::stable::copy_(grad, grad_output);
  }
  const Tensor means = dense(op, mean);
  const Tensor rstds = dense(op, rstd);
  const DataType dtype = kernel_dtype(input);
  const norm::Plan plan = norm::make_plan(sizes_of(input), strides_of(input), arguments.groups, dtype);
  const Scratch workspace(op, plan.workspace_bytes, input);
  const auto data = [](const std::optional<Tensor>& gradient) {
    return gradient ? gradient->mutable_data_ptr() : nullptr;
  };
  // Kernels only read them.
  const norm::Statistics statistics{static_cast<double*>(means.mutable_data_ptr()),
                                    static_cast<double*>(rstds.mutable_data_ptr())};
  group_norm_backward(sizes_of(input), arguments.groups, plan, dtype, kernel_dtype(grad), view(grad), view(input),
                      statistics, of_kernel, relu, wanted[0] ? mutable_view(*gradients[0]) : MutableTensor{},
                      data(gradients[1]), data(gradients[2]), workspace.data(), current_stream(input));
  return gradients;
}

}  // namespace convt3d
