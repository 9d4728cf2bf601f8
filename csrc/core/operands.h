// What a plan may know of an operator's tensors: strides, alignment, which of them are there. Two calls that agree in
// it, in the problem, the type and the device get the same plan, and what was planned is what runs. Knows nothing of
// torch or CUDA.
#pragma once

#include <array>
#include <cstdint>

#include "core/call.h"

namespace convt3d {

// The widest load, store or copy of any kernel, in bytes: no engine asks for a larger alignment.
constexpr int32_t kAddressModulus = 16;

struct OperandTraits {
  std::array<int64_t, 5> stride{};  // in elements, as in ConstTensor
  int32_t address = 0;              // modulo kAddressModulus
  bool present = false;
};

inline OperandTraits operand_traits(const ConstTensor& tensor) {
  return {tensor.stride, static_cast<int32_t>(reinterpret_cast<uintptr_t>(tensor.data) % kAddressModulus),
          tensor.data != nullptr};
}
inline OperandTraits operand_traits(const MutableTensor& tensor) {
  return operand_traits(ConstTensor{tensor.data, tensor.stride});
}

// The tensors of a call. Of the bias gradient there is no second one, and of its result nothing counts.
struct Operands {
  OperandTraits first;   // the input, or grad_output
  OperandTraits second;  // the weight or, of the weight gradient, the input
  OperandTraits mask;    // of gradients: the ReLU's output, where there is one
  OperandTraits result;
};

}  // namespace convt3d
