// csrc/device/ptx/matrices.cuh on a CPU.
#pragma once

#include "machine/machine.h"

namespace convt3d {

template <int kCount>
inline void load_matrices(uint32_t (&matrix)[kCount], uint32_t row) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
  emulator::load_matrices(matrix, kCount, row, false);
}
template <int kCount>
inline void load_matrices_transposed(uint32_t (&matrix)[kCount], uint32_t row) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
  emulator::load_matrices(matrix, kCount, row, true);
}

}  // namespace convt3d

namespace convt3d::hopper {

inline void store_matrices(uint32_t row, const uint32_t (&matrix)[4]) { emulator::store_matrices(row, matrix, false); }
inline void store_matrices_transposed(uint32_t row, const uint32_t (&matrix)[4]) {
  emulator::store_matrices(row, matrix, true);
}

}  // namespace convt3d::hopper
