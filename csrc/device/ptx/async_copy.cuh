// Copies of a thread's own from global to shared memory, past its registers ("cp.async"; compute capability 8.0 and
// later).
#pragma once

#include <cstdint>

namespace convt3d {

// 4, 8 or 16 bytes, both addresses aligned to that: the first `exist` of them (all or fewer), and zeros. Nothing is
// read where none exists.
template <int kBytes>
__device__ __forceinline__ void async_copy(uint32_t to, const void* from, uint32_t exist = kBytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  if constexpr (kBytes == 16) {  // not through L1
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(exist) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes), "r"(exist)
                 : "memory");
  }
}

// 4, 8 or 16 bytes from an address in global memory; zeros where it is below zero, which is nowhere.
template <int kBytes = 16>
__device__ __forceinline__ void async_copy_from(uint32_t to, int64_t from) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  if constexpr (kBytes == 16) {
    asm volatile(
        "{\n.reg .pred nowhere;\nsetp.lt.s64 nowhere, %1, 0;\n"
        "cp.async.cg.shared.global [%0], [%1], 16, nowhere;\n}" ::"r"(to),
        "l"(from)
        : "memory");
  } else {
    asm volatile(
        "{\n.reg .pred nowhere;\nsetp.lt.s64 nowhere, %1, 0;\n"
        "cp.async.ca.shared.global [%0], [%1], %2, nowhere;\n}" ::"r"(to),
        "l"(from), "n"(kBytes)
        : "memory");
  }
}

// The thread's copies since the last commit become a group.
__device__ __forceinline__ void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All but the thread's last kPending groups have arrived. Other threads see them past a barrier.
template <int kPending>
__device__ __forceinline__ void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace convt3d
