// csrc/device/ptx/matrices.cuh on a CPU.
#pragma once

#include "machine/machine.h"

namespace convt3d::hopper {

inline void load_matrices_transposed(uint32_t (&matrix)[4], uint32_t row) {
  emulator::load_matrices_transposed(matrix, row);
}
inline void store_matrices(uint32_t row, const uint32_t (&matrix)[4]) { emulator::store_matrices(row, matrix, false); }
inline void store_matrices_transposed(uint32_t row, const uint32_t (&matrix)[4]) {
  emulator::store_matrices(row, matrix, true);
}

}  // namespace convt3d::hopper
