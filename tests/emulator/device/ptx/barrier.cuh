// csrc/device/ptx/barrier.cuh on a CPU.
#pragma once

#include "device/ptx/shared_memory.cuh"

namespace convt3d::hopper {

inline void barrier_init(uint64_t* barrier, int arrivals) { emulator::init_barrier(barrier, arrivals); }
inline void barrier_init_fence() {}
inline void barrier_arrive(uint64_t* barrier) { emulator::arrive(barrier, 0); }
inline void barrier_arrive_copied(uint64_t* barrier) { emulator::arrive_when_copied(barrier); }
inline void barrier_arrive_expect(uint64_t* barrier, uint32_t bytes) { emulator::arrive(barrier, bytes); }
inline void barrier_wait(uint64_t* barrier, uint32_t parity) { emulator::wait(barrier, parity); }

}  // namespace convt3d::hopper
