// A group norm on a CUDA device: memory and the current stream, then the kernels of csrc/norm.
#include <torch/csrc/stable/ops.h>

#include "kernels/norm_api.h"
#include "ops/cuda_call.h"
#include "ops/cuda_forward.h"
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

// Moments of a forward's output, for its epilogue; none where its plan gathers none.
class Moments {
 public:
  Moments(const char* op, const CudaForward& forward, bool wanted) {
    if (!wanted) return;
    const Tensor& output = forward.output();
    target_.count = moment_parts(*forward.plan());
    target_.channels = output.size(1);
    const int64_t parts = output.size(0) * target_.channels * target_.count;
    memory_.emplace(op, parts * static_cast<int64_t>(sizeof(PartMoments)), output);
    target_.parts = static_cast<PartMoments*>(memory_->data());
  }
  const EpilogueMoments& target() const { return target_; }

 private:
  EpilogueMoments target_;
  std::optional<Scratch> memory_;
};

NormWay way_of(const CudaForward& forward, bool keeps_input) {
  NormTask task = *forward.norm();
  task.keeps_input = keeps_input;
  return norm_way(*forward.plan(), task);
}

void apply(const char* op, const Tensor& input, const NormArguments& arguments, const EpilogueMoments& moments,
           const Tensor& output, const norm::Statistics& statistics) {
  const DataType dtype = kernel_dtype(input);
  const Int5 size = sizes_of(input);
  const norm::Plan plan = norm::make_plan(size, strides_of(input), arguments.groups, dtype);
  const norm::Shape shape = norm::Shape::of(size, arguments.groups);
  const Scratch workspace(op, norm::forward_workspace_bytes(shape, plan, moments.count), input);
  const DataType result_dtype = *data_type(arguments.result_dtype);
  const ConstTensor x = view(input);
  const MutableTensor result = mutable_view(output);
  const norm::Vectors vectors = norm::forward_vectors(plan, size, dtype, result_dtype, x, result);
  group_norm(size, arguments.groups, plan, vectors, dtype, result_dtype, x, moments, kernel_arguments(input, arguments),
             result, statistics, workspace.data(), current_stream(input));
}

void find_norms(const char* op, const Tensor& input, const NormArguments& arguments, const EpilogueMoments& moments,
                const norm::Statistics& statistics, ChannelNorm* norms) {
  const DataType dtype = kernel_dtype(input);
  const Int5 size = sizes_of(input);
  const norm::Plan plan = norm::make_plan(size, strides_of(input), arguments.groups, dtype);
  const norm::Shape shape = norm::Shape::of(size, arguments.groups);
  const Scratch workspace(op, norm::forward_workspace_bytes(shape, plan, moments.count), input);
  const ConstTensor x = view(input);
  const norm::Vectors vectors = norm::forward_vectors(plan, size, dtype, dtype, x, mutable_view(input));
  group_norm_of_channels(size, arguments.groups, plan, vectors, dtype, x, moments, kernel_arguments(input, arguments),
                         statistics, norms, workspace.data(), current_stream(input));
}

// Stores the forward's output, which is kept, and gathers moments where that is its norm's way.
Moments run_and_gather(const char* op, const CudaForward& forward) {
  const bool gathers = forward.plan() != nullptr && way_of(forward, true) == NormWay::kEpilogue;
  Moments moments(op, forward, gathers);
  forward.run(moments.target(), {}, true);
  return moments;
}

// The norm goes into the epilogue of a second run, so that the output is written once and never read.
void run_twice(const char* op, const CudaForward& forward, const NormArguments& arguments) {
  const Tensor& output = forward.output();
  const Moments moments(op, forward, true);
  forward.run(moments.target(), {}, false);
  const Scratch norms(op, output.size(0) * output.size(1) * static_cast<int64_t>(sizeof(ChannelNorm)), output);
  auto* const norm_of_channels = static_cast<ChannelNorm*>(norms.data());
  find_norms(op, output, arguments, moments.target(), {nullptr, nullptr}, norm_of_channels);
  forward.run({}, {norm_of_channels, output.size(1)}, true);
}

Tensor allocate_statistics(const char* op, const Tensor& input, int64_t groups) {
  return allocate_or_explain(
      [&] { return allocate_matrix(op, input.size(0), groups, aoti_torch_dtype_float64(), device_of(input)); });
}

norm::Statistics statistics_in(const Tensor& mean, const Tensor& rstd) {
  return {static_cast<double*>(mean.mutable_data_ptr()), static_cast<double*>(rstd.mutable_data_ptr())};
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

Tensor CudaNorm::forward(const char* op, const ConvolutionArguments& convolution, const NormArguments& arguments) {
  const auto& [problem, input, weight, bias, activation] = convolution;
  const DeviceGuard guard(device_of(input).index);
  const CudaForward forward(op, problem, input, weight, bias, activation, data_type(arguments.result_dtype));
  const Tensor& convolved = forward.output();
  const bool in_place = arguments.result_dtype == dtype_of(convolved);
  if (!forward.plan()) return in_place ? convolved : allocate_like(op, convolved, arguments.result_dtype);
  const NormWay way = way_of(forward, false);
  if (way == NormWay::kTwice) {
    run_twice(op, forward, arguments);
    return convolved;
  }
  const Moments moments(op, forward, way == NormWay::kEpilogue);
  forward.run(moments.target(), {}, true);
  const Tensor output = in_place ? convolved : allocate_like(op, convolved, arguments.result_dtype);
  apply(op, convolved, arguments, moments.target(), output, {nullptr, nullptr});
  return output;
}

NormResult CudaNorm::forward_and_keep(const char* op, const ConvolutionArguments& convolution,
                                      const NormArguments& arguments) {
  const auto& [problem, input, weight, bias, activation] = convolution;
  const DeviceGuard guard(device_of(input).index);
  const CudaForward forward(op, problem, input, weight, bias, activation, data_type(arguments.result_dtype));
  const Tensor& convolved = forward.output();
  const Moments moments = run_and_gather(op, forward);
  const NormResult result{allocate_like(op, convolved, arguments.result_dtype), convolved,
                          allocate_statistics(op, convolved, arguments.groups),
                          allocate_statistics(op, convolved, arguments.groups)};
  if (forward.plan()) {
    apply(op, convolved, arguments, moments.target(), result.output, statistics_in(result.mean, result.rstd));
  }
  return result;
}

NormOfChannels CudaNorm::of_channels(const char* op, const ConvolutionArguments& convolution,
                                     const NormArguments& arguments) {
  const auto& [problem, input, weight, bias, activation] = convolution;
  const DeviceGuard guard(device_of(input).index);
  const CudaForward forward(op, problem, input, weight, bias, activation, data_type(arguments.result_dtype));
  const Tensor& convolved = forward.output();
  const Moments moments = run_and_gather(op, forward);
  const int64_t rows = convolved.size(0) * convolved.size(1);
  const NormOfChannels result{
      convolved, allocate_or_explain([&] {
        return allocate_matrix(op, rows, kNumbersOfNorm, aoti_torch_dtype_float32(), device_of(input));
      }),
      allocate_statistics(op, convolved, arguments.groups), allocate_statistics(op, convolved, arguments.groups)};
  if (forward.plan()) {
    find_norms(op, convolved, arguments, moments.target(), statistics_in(result.mean, result.rstd),
               static_cast<ChannelNorm*>(result.norms.mutable_data_ptr()));
  }
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
  const Int5 size = sizes_of(input);
  const norm::Plan plan = norm::make_plan(size, strides_of(input), arguments.groups, dtype);
  const ConstTensor x = view(input);
  const ConstTensor grad_result = view(grad);
  const MutableTensor grad_x = wanted[0] ? mutable_view(*gradients[0]) : MutableTensor{};
  const norm::Vectors vectors = norm::backward_vectors(plan, size, dtype, kernel_dtype(grad), x, grad_result, grad_x);
  const Scratch workspace(op, plan.workspace_bytes, input);
  const auto data = [](const std::optional<Tensor>& gradient) {
    return gradient ? gradient->mutable_data_ptr() : nullptr;
  };
  // Kernels only read the statistics.
  group_norm_backward(size, arguments.groups, plan, vectors, dtype, kernel_dtype(grad), grad_result, x,
                      statistics_in(means, rstds), of_kernel, relu, grad_x, data(gradients[1]), data(gradients[2]),
                      workspace.data(), current_stream(input));
  return gradients;
}

}  // namespace convt3d
