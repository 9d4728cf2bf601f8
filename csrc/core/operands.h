// What a plan may know of an operator's tensors: strides, alignment, which of them are there. Two calls that agree in
// it, in the problem, the type and the device get the same plan, and what was planned is what runs. Knows nothing of
// torch or CUDA.
#pragma once

#include <array>
#include <cstdint>

#include "core/call.h"
#include "core/problem.h"

namespace convt3d {

// The widest load, store or copy of any kernel, in bytes: no engine asks for a larger alignment.
constexpr int32_t kAddressModulus = 16;

struct OperandTraits {
  std::array<int64_t, 5> stride{};  // in elements, as in ConstTensor
  int32_t address = 0;              // modulo kAddressModulus
  bool present = false;
  bool is_copy = false;      // made for the call, with the channels last (core/channels_copy.h)
  bool is_of_dense = false;  // every so many-th element of a tensor with dense images (core/output_view.h)
};

inline OperandTraits operand_traits(const ConstTensor& tensor) {
  return {tensor.stride, static_cast<int32_t>(reinterpret_cast<uintptr_t>(tensor.data) % kAddressModulus),
          tensor.data != nullptr};
}
inline OperandTraits operand_traits(const MutableTensor& tensor) {
  return operand_traits(ConstTensor{tensor.data, tensor.stride});
}

// The tensors of a call. Of the bias gradient there is no second one, and of its result nothing counts; of a backward
// the weight's gradient does not count.
struct Operands {
  OperandTraits first;     // the input, or grad_output
  OperandTraits second;    // the weight (absent: unknown) or, of the weight gradient and of a backward, the input
  OperandTraits mask;      // of gradients: the ReLU's output, where there is one
  OperandTraits result;    // of a backward: grad_input
  OperandTraits weight{};  // of a backward alone; absent: unknown
};

// A tensor [N, C, D, H, W] without gaps, at a multiple of kAddressModulus bytes.
inline OperandTraits dense_operand(int64_t channels, const Int3& size, bool channels_last) {
  const int64_t positions = size[0] * size[1] * size[2];
  const int64_t w = channels_last ? channels : 1;
  const int64_t h = size[2] * w;
  return {{channels * positions, channels_last ? 1 : positions, size[1] * h, h, w}, 0, true};
}
// Whether each image follows the one before. Of a slice of channels of a larger tensor it does not.
inline bool has_dense_images(const OperandTraits& tensor, int64_t channels, const Int3& size) {
  return tensor.stride[0] == channels * size[0] * size[1] * size[2];
}
// The operands of a forward whose input and output are dense, in one format.
inline Operands dense_operands(const Problem& problem, bool channels_last) {
  Operands operands;
  operands.first = dense_operand(problem.in_channels, problem.input_size, channels_last);
  operands.second = dense_operand(problem.out_channels_per_group(), problem.kernel_size, channels_last);
  operands.result = dense_operand(problem.out_channels, problem.output_size(), channels_last);
  return operands;
}

}  // namespace convt3d
