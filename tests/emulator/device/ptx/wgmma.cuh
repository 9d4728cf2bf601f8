// csrc/device/ptx/wgmma.cuh on a CPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "machine/machine.h"

namespace convt3d::hopper {

inline void wgmma_fence() { emulator::meet_warp("wgmma.fence"); }
inline void wgmma_commit() { emulator::commit_products(); }
template <int kPending>
inline void wgmma_wait() {
  emulator::wait_for_products(kPending);
}

template <typename T, int kN>
struct Wgmma {
  static constexpr emulator::MatrixElement kElement = std::is_same_v<T, float>    ? emulator::MatrixElement::kTf32
                                                      : std::is_same_v<T, __half> ? emulator::MatrixElement::kFloat16
                                                                                  : emulator::MatrixElement::kBFloat16;

  template <bool kAdd = true, bool kNMajor = false, bool kMMajor = false>
  static void multiply(float (&c)[kN / 2], uint64_t a, uint64_t b) {
    emulator::multiply(c, {kElement, kN, kAdd, kNMajor, kMMajor, a, b});
  }
};

template <int kN>
struct WgmmaOfRegisters {
  static void multiply(float (&c)[kN / 2], const uint32_t (&a)[4], uint64_t b) {
    emulator::multiply(c, {emulator::MatrixElement::kTf32, kN, true, false, false, 0, b}, a);
  }
};

}  // namespace convt3d::hopper
