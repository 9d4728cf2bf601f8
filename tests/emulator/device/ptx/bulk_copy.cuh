// csrc/device/ptx/bulk_copy.cuh on a CPU.
#pragma once

#include "device/ptx/shared_memory.cuh"

namespace convt3d::hopper {

inline void copy_to_shared(void* destination, const void* source, uint32_t bytes, uint64_t* barrier) {
  emulator::copy_to_shared(destination, source, bytes, barrier);
}

struct BoxOrigin {
  int32_t at[5];
};

inline void copy_box_to_shared(void* destination, const void* map, const BoxOrigin& origin, uint64_t* barrier) {
  emulator::copy_box_to_shared(destination, map, origin.at, barrier);
}
inline void copy_box_to_global(const void* map, const void* source, const BoxOrigin& origin) {
  emulator::copy_box_to_global(map, source, origin.at);
}
inline void bulk_commit() { emulator::commit_copies(); }
template <int kPending>
inline void bulk_wait_read() {
  emulator::wait_until_read(kPending);
}

inline void fence_async_proxy() {}

}  // namespace convt3d::hopper
