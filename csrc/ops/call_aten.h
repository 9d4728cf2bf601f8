// Operators of ATen, called through the stable dispatcher.
#pragma once

#include <array>
#include <optional>
#include <stdexcept>
#include <string>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include "ops/tensor_info.h"
#include "ops/torch_error.h"

namespace convt3d {

// Calls an ATen operator with `results` tensor results and returns them in their order; a result that was not asked for
// comes as an undefined tensor.
template <size_t results, typename... Arguments>
std::array<Tensor, results> call_aten(const char* op, const char* aten_op, const char* overload,
                                      const Arguments&... arguments) {
  static_assert(sizeof...(arguments) >= results, "the dispatcher returns the results in the arguments' places");
  std::array<StableIValue, sizeof...(arguments)> stack{torch::stable::detail::from(arguments)...};
  if (torch_call_dispatcher(aten_op, overload, stack.data(), TORCH_ABI_VERSION) != TORCH_SUCCESS) {
    const std::string reason = torch_error();
    throw std::runtime_error(std::string(op) + ": " + aten_op + " failed on the CPU: " +
                             (reason.empty() ? "PyTorch has written the reason to stderr" : reason));
  }
  if constexpr (results == 1) {
    return {torch::stable::detail::to<Tensor>(stack[0])};
  } else {
    static_assert(results == 3, "operators here return one tensor or three");
    return {torch::stable::detail::to<Tensor>(stack[0]), torch::stable::detail::to<Tensor>(stack[1]),
            torch::stable::detail::to<Tensor>(stack[2])};
  }
}

}  // namespace convt3d
