// csrc/device/ptx/thread_barrier.cuh on a CPU.
#pragma once

#include "machine/machine.h"

namespace convt3d {

inline void sync_threads(int barrier, int threads) { emulator::meet_threads(barrier, threads); }
inline void arrive_threads(int barrier, int threads) { emulator::arrive_at_threads(barrier, threads); }

}  // namespace convt3d
