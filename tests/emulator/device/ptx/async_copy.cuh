// csrc/device/ptx/async_copy.cuh on a CPU.
#pragma once

#include "machine/machine.h"

namespace convt3d {

template <int kBytes>
inline void async_copy(uint32_t to, const void* from, uint32_t exist = kBytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  emulator::copy_of_thread(to, from, kBytes, exist);
}
template <int kBytes = 16>
inline void async_copy_from(uint32_t to, int64_t from) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  emulator::copy_of_thread(to, reinterpret_cast<const void*>(from < 0 ? 0 : from), kBytes, from < 0 ? 0 : kBytes);
}
inline void async_commit() { emulator::commit_copies_of_thread(); }
template <int kPending>
inline void async_wait() {
  emulator::wait_for_copies_of_thread(kPending);
}

}  // namespace convt3d
