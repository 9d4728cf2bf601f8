// The tensors of gradients, of some images or copied for them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/call.h"
#include "device/channels_last_copies.h"
#include "kernels/with_type.cuh"
#include "planning/operator_plan.h"

namespace convt3d {

// The tensors of a backward.
struct BackwardTensors {
  ConstTensor grad_output;
  ConstTensor relu_output;
  ConstTensor input;
  MutableTensor grad_input;
};

// The tensor from an image on.
template <typename Tensor>
Tensor from_image(const Tensor& tensor, int64_t image, DataType dtype) {
  if (tensor.data == nullptr) return tensor;
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(tensor.data)>>, const char, char>;
  return {static_cast<Byte*>(tensor.data) + image * tensor.stride[0] * element_size(dtype), tensor.stride};
}

inline BackwardTensors images_from(const BackwardTensors& all, int64_t first, DataType dtype) {
  return {from_image(all.grad_output, first, dtype), from_image(all.relu_output, first, dtype),
          from_image(all.input, first, dtype), from_image(all.grad_input, first, dtype)};
}

// Copies what the plan says of a round's images, and returns what is read instead.
inline BackwardTensors copied_round(const SeparatePlan& plan, DataType dtype, BackwardTensors round,
                                    unsigned char* workspace, Stream stream) {
  with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (!std::is_same_v<T, double>) {
      const auto copy = [&](const OperandCopy& of, ConstTensor& tensor, ConstTensor mask, unsigned char* to) {
        if (!of.exists) return;
        copy_channels_last<T>(of, {0, of.images, {0, of.size[0]}}, tensor, mask, to, stream);
        tensor = {to, copied_operand(of).stride};
      };
      copy(plan.grad_copy, round.grad_output, round.relu_output, workspace);
      if (plan.grad_copy.exists) round.relu_output = {};
      copy(plan.input_copy, round.input, {}, workspace + plan.input_copy_offset());
    }
  });
  return round;
}

}  // namespace convt3d
