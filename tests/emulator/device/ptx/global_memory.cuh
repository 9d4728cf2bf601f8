// csrc/device/ptx/global_memory.cuh on a CPU.
#pragma once

#include <cstring>

#include "machine/machine.h"

namespace convt3d::hopper {

template <typename T, int kCount>
inline void store_global(T* to, const T (&values)[kCount]) {
  static_assert(sizeof(values) == 2 || sizeof(values) == 4 || sizeof(values) == 8 || sizeof(values) == 16);
  emulator::check_write(to, sizeof(values), sizeof(values));
  std::memcpy(to, values, sizeof(values));
}

inline void load_global(float (&values)[4], const float* from) {
  emulator::check_read(from, sizeof(values), sizeof(values));
  std::memcpy(values, from, sizeof(values));
}

}  // namespace convt3d::hopper
