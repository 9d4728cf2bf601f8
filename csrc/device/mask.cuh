// The mask of a ReLU's gradient, as PyTorch's threshold_backward: a gradient counts only where the output is not at
// most zero. A NaN in the output lets it through.
#pragma once

#include "device/numeric.cuh"
#include "device/width_pair.cuh"

namespace convt3d {

template <typename T>
__device__ __forceinline__ bool is_masked(T output) {
  return to_accumulator(output) <= 0;
}

template <typename T>
__device__ __forceinline__ void apply_mask(T& grad, T output) {
  if (is_masked(output)) grad = from_accumulator<T>(Accumulator<T>(0));
}

// Applies the mask to a word of one element, or of two.
template <typename T>
__device__ __forceinline__ uint32_t masked_word(uint32_t grad, uint32_t output) {
  if constexpr (sizeof(ElementOf<T>) == 2) {
    return grad & ~halves_at_most_zero<ElementOf<T>>(output);
  } else {
    return is_masked(*reinterpret_cast<const T*>(&output)) ? 0 : grad;
  }
}

}  // namespace convt3d
