// Two neighbours along the width, of 16 bits each, that kernels read as one word.
#pragma once

#include "device/numeric.cuh"

namespace convt3d {

template <typename T>
struct alignas(4) WidthPair {
  static_assert(sizeof(T) == 2);
  T value[2];
};

// What a kernel's operand has, and what its results are.
template <typename T>
struct PairedType {
  using Element = T;
  static constexpr bool kPaired = false;
};
template <typename T>
struct PairedType<WidthPair<T>> {
  using Element = T;
  static constexpr bool kPaired = true;
};
template <typename T>
using ElementOf = typename PairedType<T>::Element;
template <typename T>
constexpr bool kIsPaired = PairedType<T>::kPaired;

}  // namespace convt3d
