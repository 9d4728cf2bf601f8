#include "ops/checks.h"

#include "ops/failure.h"

namespace convt3d {
namespace {

// Sizes, channels and offsets within one image fit 32 bits in the kernels, and their products 64 bits here.
constexpr int64_t kSizeLimit = int64_t{1} << 31;
constexpr const char* kAxisName[3] = {"depth", "height", "width"};

Int3 spatial(const Int5& sizes) { return {sizes[2], sizes[3], sizes[4]}; }

// ---- tensors, each by itself ----

constexpr const char* kActivationShape = "5-D (N, C, D, H, W)";
constexpr const char* kWeightShape = "5-D (C_in, C_out/groups, kD, kH, kW)";
constexpr const char* kBiasShape = "1-D (C_out)";

void check_tensor(const char* op, const char* name, const Tensor& tensor, int64_t rank, const char* shape) {
  if (!is_strided(tensor)) fail(op, name, " must be a dense (strided) tensor, got another layout (sparse or opaque)");
  if (tensor.dim() != rank) {
    fail(op, name, " must be ", shape, ", got ", tensor.dim(), "-D of shape ", format(tensor.sizes()));
  }
}

// The first tensor of an operator decides dtype and device.
void check_dtype(const char* op, const char* name, const Tensor& tensor) {
  const int32_t dtype = dtype_of(tensor);
  if (!data_type(dtype)) {
    fail(op, name, " must be of dtype float32, float64, float16 or bfloat16, got ", dtype_name(dtype));
  }
}

void check_same_kind(const char* op, const char* name, const Tensor& tensor, const char* first_name,
                     const Tensor& first) {
  const Device device = device_of(tensor);
  const Device expected_device = device_of(first);
  if (!(device == expected_device)) {
    fail(op, name, " must be on the device of ", first_name, ", ", device_name(expected_device), ", got ",
         device_name(device));
  }
  const int32_t dtype = dtype_of(tensor);
  const int32_t expected_dtype = dtype_of(first);
  if (dtype != expected_dtype) {
    fail(op, name, " must have the dtype of ", first_name, ", ", dtype_name(expected_dtype), ", got ",
         dtype_name(dtype));
  }
}

void check_relu_output(const char* op, const std::optional<Tensor>& relu_output, const Tensor& grad_output) {
  if (!relu_output) return;
  check_tensor(op, "relu_output", *relu_output, 5, kActivationShape);
  check_same_kind(op, "relu_output", *relu_output, "grad_output", grad_output);
  if (sizes_of(*relu_output) != sizes_of(grad_output)) {
    fail(op, "relu_output must have the shape of grad_output, ", format(grad_output.sizes()), ", got ",
         format(relu_output->sizes()));
  }
}

// ---- parameters, each by itself ----

Int3 triple(const char* op, const char* name, const std::vector<int64_t>& values, int64_t minimum) {
  if (values.size() != 1 && values.size() != 3) {
    fail(op, name, " must be an int or 3 ints (depth, height, width), got ", format(values));
  }
  for (int64_t value : values) {
    if (value < minimum)
      fail(op, name, minimum == 0 ? " must be non-negative" : " must be positive", ", got ", format(values));
    if (value >= kSizeLimit) fail(op, name, " must be less than 2^31, got ", format(values));
  }
  return values.size() == 1 ? Int3{values[0], values[0], values[0]} : Int3{values[0], values[1], values[2]};
}

// A problem with its parameters set and its sizes still to come.
Problem check_parameters(const char* op, const Parameters& parameters) {
  Problem problem;
  problem.stride = triple(op, "stride", parameters.stride, 1);
  problem.padding = triple(op, "padding", parameters.padding, 0);
  problem.output_padding = triple(op, "output_padding", parameters.output_padding, 0);
  problem.dilation = triple(op, "dilation", parameters.dilation, 1);
  problem.groups = parameters.groups;
  if (problem.groups < 1) fail(op, "groups must be positive, got ", problem.groups);
  if (problem.groups >= kSizeLimit) fail(op, "groups must be less than 2^31, got ", problem.groups);
  for (int axis = 0; axis < 3; ++axis) {
    if (problem.output_padding[axis] >= problem.stride[axis] &&
        problem.output_padding[axis] >= problem.dilation[axis]) {
      fail(op, "output_padding must be smaller than stride or dilation in every dimension, got output_padding ",
           format(problem.output_padding), " with stride ", format(problem.stride), " and dilation ",
           format(problem.dilation));
    }
  }
  return problem;
}

// ---- channels and sizes, together ----

void check_channels(const char* op, const char* name, const Tensor& tensor) {
  if (tensor.size(1) >= kSizeLimit) {
    fail(op, name, " must have less than 2^31 channels, got shape ", format(tensor.sizes()));
  }
}

void set_weight(const char* op, const Int5& weight, Problem& problem) {
  for (int64_t size : weight) {
    if (size < 1) fail(op, "weight must not be empty in any dimension, got shape ", format(weight));
  }
  problem.in_channels = weight[0];
  if (problem.in_channels % problem.groups != 0) {
    fail(op, "weight must have a first dimension (C_in) divisible by groups = ", problem.groups, ", got shape ",
         format(weight));
  }
  problem.out_channels = weight[1] * problem.groups;  // at most weight[0] * weight[1], so it cannot overflow
  if (problem.in_channels >= kSizeLimit || problem.out_channels >= kSizeLimit) {
    fail(op, "weight must have less than 2^31 channels (C_in, and C_out/groups times groups), got shape ",
         format(weight), " with groups = ", problem.groups);
  }
  problem.kernel_size = spatial(weight);
  for (int64_t size : problem.kernel_size) {
    if (size >= kSizeLimit) fail(op, "weight must have a kernel size less than 2^31, got shape ", format(weight));
  }
}

// An empty batch has no voxel to be missing, so PyTorch takes any size with it; else there must be something to read.
void check_spatial(const char* op, const char* name, const Int5& sizes) {
  for (int64_t size : spatial(sizes)) {
    if (size < 1 && sizes[0] != 0) {
      fail(op, name, " must have a depth, height and width of at least 1, got shape ", format(sizes));
    }
    if (size >= kSizeLimit) {
      fail(op, name, " must have a depth, height and width less than 2^31, got shape ", format(sizes));
    }
  }
}

void check_extent(const char* op, const char* name, const Problem& problem) {
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t extent = problem.output_size(axis) + 2 * problem.padding[axis];
    if (extent >= kSizeLimit) {
      fail(op, name, " must give a padded output size (size-1)*stride + dilation*(kernel_size-1) + output_padding + 1 ",
           "less than 2^31, got ", extent, " in ", kAxisName[axis], " from size ", format(problem.input_size),
           ", kernel size ", format(problem.kernel_size), ", stride ", format(problem.stride), ", dilation ",
           format(problem.dilation), " and output_padding ", format(problem.output_padding));
    }
  }
}

// A result must be addressable: its size in bytes fits 63 bits.
void check_result(const char* op, const Int5& sizes, int64_t bytes_per_element) {
  int64_t bytes = bytes_per_element;
  for (int64_t size : sizes) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) {
      fail(op, "the result must take less than 2^63 bytes, got shape ", format(sizes));
    }
  }
}

Int5 output_shape(const Problem& problem) {
  return {problem.batch, problem.out_channels, problem.output_size(0), problem.output_size(1), problem.output_size(2)};
}

int64_t bytes_per_element(const Tensor& tensor) { return element_size(*data_type(dtype_of(tensor))); }

// The input beside a weight that `problem` was set from.
void set_input(const char* op, const Tensor& input, const Tensor& weight, Problem& problem) {
  const Int5 sizes = sizes_of(input);
  if (sizes[1] != problem.in_channels) {
    fail(op, "input must have C_in = ", problem.in_channels, " channels (the first dimension of weight, of shape ",
         format(weight.sizes()), "), got shape ", format(sizes));
  }
  check_spatial(op, "input", sizes);
  problem.batch = sizes[0];
  problem.input_size = spatial(sizes);
  check_extent(op, "input", problem);
}

// grad_output beside an input that `problem` was set from.
void check_is_of_output(const char* op, const Tensor& grad_output, const Tensor& input, const Problem& problem) {
  const Int5 sizes = sizes_of(grad_output);
  if (sizes != output_shape(problem)) {
    fail(op, "grad_output must have the shape of the output, ", format(output_shape(problem)), " for input of shape ",
         format(input.sizes()), ", kernel size ", format(problem.kernel_size), ", stride ", format(problem.stride),
         ", padding ", format(problem.padding), ", output_padding ", format(problem.output_padding), " and dilation ",
         format(problem.dilation), ", got ", format(sizes));
  }
}

}  // namespace

Problem check_forward(const char* op, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                      const Parameters& parameters) {
  check_tensor(op, "input", input, 5, kActivationShape);
  check_tensor(op, "weight", weight, 5, kWeightShape);
  check_dtype(op, "input", input);
  check_same_kind(op, "weight", weight, "input", input);
  Problem problem = check_parameters(op, parameters);
  set_weight(op, sizes_of(weight), problem);
  if (bias) {
    check_tensor(op, "bias", *bias, 1, kBiasShape);
    check_same_kind(op, "bias", *bias, "input", input);
    if (bias->size(0) != problem.out_channels) {
      fail(op, "bias must have C_out = ", problem.out_channels, " elements, got shape ", format(bias->sizes()));
    }
  }

  set_input(op, input, weight, problem);
  for (int64_t size : problem.output_size()) {
    if (size < 1) {
      fail(op, "the output size must be positive, got ", format(problem.output_size()), " from input size ",
           format(problem.input_size), ", kernel size ", format(problem.kernel_size), ", stride ",
           format(problem.stride), ", padding ", format(problem.padding), ", output_padding ",
           format(problem.output_padding), " and dilation ", format(problem.dilation));
    }
  }
  check_result(op, output_shape(problem), bytes_per_element(input));
  return problem;
}

Problem check_input_grad(const char* op, const Tensor& grad_output, const Tensor& weight,
                         const std::optional<Tensor>& relu_output, const Parameters& parameters) {
  check_tensor(op, "grad_output", grad_output, 5, kActivationShape);
  check_tensor(op, "weight", weight, 5, kWeightShape);
  check_dtype(op, "grad_output", grad_output);
  check_same_kind(op, "weight", weight, "grad_output", grad_output);
  check_relu_output(op, relu_output, grad_output);
  Problem problem = check_parameters(op, parameters);
  set_weight(op, sizes_of(weight), problem);

  const Int5 sizes = sizes_of(grad_output);
  if (sizes[1] != problem.out_channels) {
    fail(op, "grad_output must have C_out = ", problem.out_channels, " channels (the second dimension of weight, of ",
         "shape ", format(weight.sizes()), ", times groups = ", problem.groups, "), got shape ", format(sizes));
  }
  check_spatial(op, "grad_output", sizes);
  problem.batch = sizes[0];
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t steps = sizes[axis + 2] - 1 - problem.output_padding[axis] -
                          problem.dilation[axis] * (problem.kernel_size[axis] - 1) + 2 * problem.padding[axis];
    problem.input_size[axis] = steps / problem.stride[axis] + 1;
    const int64_t minimum = problem.batch == 0 ? 0 : 1;
    if (steps % problem.stride[axis] != 0 || problem.input_size[axis] < minimum) {
      fail(op, "grad_output must have the size of an output, (size-1)*stride - 2*padding + dilation*(kernel_size-1) + ",
           "output_padding + 1 for some input size >= ", minimum, ", got ", kAxisName[axis], " ", sizes[axis + 2],
           " with kernel size ", format(problem.kernel_size), ", stride ", format(problem.stride), ", padding ",
           format(problem.padding), ", output_padding ", format(problem.output_padding), " and dilation ",
           format(problem.dilation));
    }
  }
  check_extent(op, "grad_output", problem);
  check_result(
      op, {problem.batch, problem.in_channels, problem.input_size[0], problem.input_size[1], problem.input_size[2]},
      bytes_per_element(grad_output));
  return problem;
}

Problem check_weight_grad(const char* op, const Tensor& grad_output, const Tensor& input,
                          const std::vector<int64_t>& kernel_size, const std::optional<Tensor>& relu_output,
                          const Parameters& parameters) {
  check_tensor(op, "grad_output", grad_output, 5, kActivationShape);
  check_tensor(op, "input", input, 5, kActivationShape);
  check_dtype(op, "grad_output", grad_output);
  check_same_kind(op, "input", input, "grad_output", grad_output);
  check_relu_output(op, relu_output, grad_output);
  Problem problem = check_parameters(op, parameters);
  problem.kernel_size = triple(op, "kernel_size", kernel_size, 1);

  const Int5 sizes = sizes_of(grad_output);
  const Int5 input_sizes = sizes_of(input);
  problem.batch = input_sizes[0];
  problem.in_channels = input_sizes[1];
  problem.out_channels = sizes[1];
  problem.input_size = spatial(input_sizes);
  if (problem.in_channels < 1 || problem.in_channels % problem.groups != 0) {
    fail(op, "input must have a positive number of channels (C_in) divisible by groups = ", problem.groups,
         ", got shape ", format(input_sizes));
  }
  if (problem.out_channels < 1 || problem.out_channels % problem.groups != 0) {
    fail(op, "grad_output must have a positive number of channels (C_out) divisible by groups = ", problem.groups,
         ", got shape ", format(sizes));
  }
  check_channels(op, "input", input);
  check_channels(op, "grad_output", grad_output);
  check_spatial(op, "input", input_sizes);
  check_spatial(op, "grad_output", sizes);
  check_extent(op, "input", problem);
  check_is_of_output(op, grad_output, input, problem);
  check_result(op,
               {problem.in_channels, problem.out_channels_per_group(), problem.kernel_size[0], problem.kernel_size[1],
                problem.kernel_size[2]},
               bytes_per_element(input));
  return problem;
}

void check_output_mask(const char* op, const std::vector<bool>& output_mask) {
  if (output_mask.size() != 3) {
    fail(op, "output_mask must be 3 bools (input, weight, bias), got ", output_mask.size());
  }
}

Problem check_backward(const char* op, const Tensor& grad_output, const Tensor& input, const Tensor& weight,
                       const std::optional<Tensor>& relu_output, const Parameters& parameters,
                       const std::vector<bool>& output_mask) {
  check_tensor(op, "grad_output", grad_output, 5, kActivationShape);
  check_tensor(op, "input", input, 5, kActivationShape);
  check_tensor(op, "weight", weight, 5, kWeightShape);
  check_dtype(op, "grad_output", grad_output);
  check_same_kind(op, "input", input, "grad_output", grad_output);
  check_same_kind(op, "weight", weight, "grad_output", grad_output);
  check_relu_output(op, relu_output, grad_output);
  Problem problem = check_parameters(op, parameters);
  check_output_mask(op, output_mask);
  set_weight(op, sizes_of(weight), problem);
  set_input(op, input, weight, problem);
  check_spatial(op, "grad_output", sizes_of(grad_output));
  check_is_of_output(op, grad_output, input, problem);
  check_result(op, sizes_of(input), bytes_per_element(input));
  check_result(op, sizes_of(weight), bytes_per_element(weight));
  return problem;
}

void check_bias_grad(const char* op, const Tensor& grad_output, const std::optional<Tensor>& relu_output) {
  check_tensor(op, "grad_output", grad_output, 5, kActivationShape);
  check_dtype(op, "grad_output", grad_output);
  check_relu_output(op, relu_output, grad_output);
  check_channels(op, "grad_output", grad_output);
  check_spatial(op, "grad_output", sizes_of(grad_output));
}

}  // namespace convt3d
