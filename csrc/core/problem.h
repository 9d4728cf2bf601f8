// The operator's problem: sizes and parameters of one 3D transposed convolution, in PyTorch's names.
// Knows nothing of torch or CUDA; everything below csrc/ builds on it.
#pragma once

#include <array>
#include <cstdint>

namespace convt3d {

using Int3 = std::array<int64_t, 3>;  // (depth, height, width)

enum class DataType : int { kFloat32, kFloat64, kFloat16, kBFloat16 };

constexpr int64_t element_size(DataType dtype) {
  return dtype == DataType::kFloat64 ? 8 : dtype == DataType::kFloat32 ? 4 : 2;
}

// Sizes of input[N, C_in, D, H, W], weight[C_in, C_out/groups, kD, kH, kW], output[N, C_out, D', H', W'].
struct Problem {
  int64_t batch = 0;         // N
  int64_t in_channels = 0;   // C_in
  int64_t out_channels = 0;  // C_out
  int64_t groups = 1;
  Int3 input_size{};   // D, H, W
  Int3 kernel_size{};  // kD, kH, kW
  Int3 stride{1, 1, 1};
  Int3 padding{0, 0, 0};
  Int3 output_padding{0, 0, 0};
  Int3 dilation{1, 1, 1};

  int64_t in_channels_per_group() const { return in_channels / groups; }
  int64_t out_channels_per_group() const { return out_channels / groups; }
  int64_t taps() const { return kernel_size[0] * kernel_size[1] * kernel_size[2]; }

  // torch.nn.ConvTranspose3d: D' = (D-1)*stride - 2*padding + dilation*(k-1) + output_padding + 1.
  int64_t output_size(int axis) const {
    return (input_size[axis] - 1) * stride[axis] - 2 * padding[axis] + dilation[axis] * (kernel_size[axis] - 1) +
           output_padding[axis] + 1;
  }
  Int3 output_size() const { return {output_size(0), output_size(1), output_size(2)}; }
};

// The problem of a bias gradient of which nothing is known but the size of grad_output.
inline Problem bias_grad_problem(const std::array<int64_t, 5>& size) {
  Problem problem;
  problem.batch = size[0];
  problem.in_channels = problem.out_channels = size[1];
  problem.input_size = {size[2], size[3], size[4]};
  problem.kernel_size = {1, 1, 1};
  return problem;
}
// The problem of the bias gradient that belongs to another problem.
inline Problem bias_grad_problem(const Problem& problem) {
  const Int3 size = problem.output_size();
  return bias_grad_problem(std::array<int64_t, 5>{problem.batch, problem.out_channels, size[0], size[1], size[2]});
}

}  // namespace convt3d
