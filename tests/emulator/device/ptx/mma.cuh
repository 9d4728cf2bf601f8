// csrc/device/ptx/mma.cuh on a CPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "machine/machine.h"

namespace convt3d {

template <typename T>
inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  constexpr emulator::MatrixElement kElement = std::is_same_v<T, float>    ? emulator::MatrixElement::kTf32
                                               : std::is_same_v<T, __half> ? emulator::MatrixElement::kFloat16
                                                                           : emulator::MatrixElement::kBFloat16;
  emulator::multiply_add(kElement, c, a, b);
}

}  // namespace convt3d
