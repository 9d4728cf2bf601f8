#include "ops/norm_checks.h"

#include <cmath>

#include "ops/failure.h"

namespace convt3d {
namespace {

bool is_16_bits(int32_t dtype) { return dtype == aoti_torch_dtype_float16() || dtype == aoti_torch_dtype_bfloat16(); }

// A dtype that may stand beside tensors of another one.
bool goes_with(int32_t dtype, int32_t other) {
  return dtype == other || (dtype == aoti_torch_dtype_float32() && is_16_bits(other));
}

std::string valid_dtypes(int32_t dtype) { return dtype_name(dtype) + (is_16_bits(dtype) ? " or float32" : ""); }

void check_device(const char* op, const char* name, const Tensor& tensor, const Tensor& input) {
  const Device device = device_of(tensor);
  const Device expected = device_of(input);
  if (!(device == expected)) {
    fail(op, name, " must be on the device of input, ", device_name(expected), ", got ", device_name(device));
  }
}

void check_affine(const char* op, const char* name, const std::optional<Tensor>& tensor, const Tensor& input,
                  int64_t channels) {
  if (!tensor) return;
  if (!is_strided(*tensor)) fail(op, name, " must be a dense (strided) tensor, got another layout (sparse or opaque)");
  check_device(op, name, *tensor, input);
  const int32_t dtype = dtype_of(*tensor);
  if (!goes_with(dtype, dtype_of(input))) {
    fail(op, name, " must be of dtype ", valid_dtypes(dtype_of(input)), " beside input of ",
         dtype_name(dtype_of(input)), ", got ", dtype_name(dtype));
  }
  if (tensor->dim() != 1 || tensor->size(0) != channels) {
    fail(op, name, " must be 1-D with C_out = ", channels, " elements, got shape ", format(tensor->sizes()));
  }
}

void check_affines(const char* op, const char* weight_name, const std::optional<Tensor>& weight, const char* bias_name,
                   const std::optional<Tensor>& bias, const Tensor& input, int64_t channels) {
  check_affine(op, weight_name, weight, input, channels);
  check_affine(op, bias_name, bias, input, channels);
  if (weight && bias && dtype_of(*weight) != dtype_of(*bias)) {
    fail(op, bias_name, " must have the dtype of ", weight_name, ", ", dtype_name(dtype_of(*weight)), ", got ",
         dtype_name(dtype_of(*bias)));
  }
}

void check_groups(const char* op, int64_t channels, int64_t num_groups) {
  if (num_groups < 1) fail(op, "num_groups must be positive, got ", num_groups);
  if (channels % num_groups != 0) {
    fail(op, "num_groups must divide the channels of what is normalised, C_out = ", channels, ", got ", num_groups);
  }
}

void check_slope(const char* op, double negative_slope) {
  if (!std::isfinite(negative_slope)) fail(op, "negative_slope must be finite, got ", negative_slope);
}

void check_statistic(const char* op, const char* name, const Tensor& tensor, const Tensor& input, int64_t num_groups) {
  check_device(op, name, tensor, input);
  if (!is_strided(tensor) || dtype_of(tensor) != aoti_torch_dtype_float64() || tensor.dim() != 2 ||
      tensor.size(0) != input.size(0) || tensor.size(1) != num_groups) {
    fail(op, name, " must be a dense tensor (N, num_groups) of dtype float64, got shape ", format(tensor.sizes()),
         " of dtype ", dtype_name(dtype_of(tensor)));
  }
}

}  // namespace

NormArguments check_norm(const char* op, const Tensor& input, int64_t channels, int64_t num_groups,
                         const std::optional<Tensor>& norm_weight, const std::optional<Tensor>& norm_bias, double eps,
                         double negative_slope, std::optional<torch::headeronly::ScalarType> dtype) {
  check_groups(op, channels, num_groups);
  check_affines(op, "norm_weight", norm_weight, "norm_bias", norm_bias, input, channels);
  if (!(eps >= 0) || !std::isfinite(eps)) fail(op, "eps must be non-negative and finite, got ", eps);
  check_slope(op, negative_slope);
  const int32_t own = dtype_of(input);
  const int32_t wanted = dtype ? static_cast<int32_t>(*dtype) : own;
  if (!goes_with(wanted, own)) {
    fail(op, "dtype must be ", valid_dtypes(own), " for input of ", dtype_name(own), ", got ", dtype_name(wanted));
  }
  return {num_groups, norm_weight, norm_bias, eps, negative_slope, wanted};
}

void check_no_float64(const char* op, const Tensor& input) {
  if (data_type(dtype_of(input)) == DataType::kFloat64) {
    fail(op, "input must be of dtype float32, float16 or bfloat16, got float64");
  }
}

NormArguments check_norm_backward(const char* op, const Tensor& grad_output, const Tensor& input, const Tensor& mean,
                                  const Tensor& rstd, const std::optional<Tensor>& weight,
                                  const std::optional<Tensor>& bias, int64_t num_groups, double negative_slope) {
  for (const auto& [name, tensor] :
       {std::pair<const char*, const Tensor&>{"input", input}, {"grad_output", grad_output}}) {
    if (!is_strided(tensor)) fail(op, name, " must be a dense (strided) tensor, got another layout (sparse or opaque)");
    if (tensor.dim() != 5) {
      fail(op, name, " must be 5-D (N, C, D, H, W), got ", tensor.dim(), "-D of shape ", format(tensor.sizes()));
    }
  }
  if (!data_type(dtype_of(input))) {
    fail(op, "input must be of dtype float32, float64, float16 or bfloat16, got ", dtype_name(dtype_of(input)));
  }
  if (sizes_of(grad_output) != sizes_of(input)) {
    fail(op, "grad_output must have the shape of input, ", format(input.sizes()), ", got ",
         format(grad_output.sizes()));
  }
  check_device(op, "grad_output", grad_output, input);
  const int32_t dtype = dtype_of(grad_output);
  if (!goes_with(dtype, dtype_of(input))) {
    fail(op, "grad_output must be of dtype ", valid_dtypes(dtype_of(input)), " beside input of ",
         dtype_name(dtype_of(input)), ", got ", dtype_name(dtype));
  }
  check_groups(op, input.size(1), num_groups);
  check_statistic(op, "mean", mean, input, num_groups);
  check_statistic(op, "rstd", rstd, input, num_groups);
  check_affines(op, "weight", weight, "bias", bias, input, input.size(1));
  check_slope(op, negative_slope);
  return {num_groups, weight, bias, 0, negative_slope, dtype};
}

}  // namespace convt3d
