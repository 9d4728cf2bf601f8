// csrc/device/ptx/threads.cuh on a CPU.
#pragma once

#include "machine/machine.h"

namespace convt3d::hopper {

inline void wait_clocks(uint32_t) {}
inline void allow_dependents() {}
inline void wait_for_predecessors() {}

template <typename T>
T computed_here(T value) {
  return value;
}
inline int lane_here() { return emulator::lane(); }
inline void fence_register(float& value) { asm volatile("" : "+m"(value)::"memory"); }

inline bool elect_lane() {
  emulator::meet_warp("an election");
  return emulator::lane() == 0;
}

template <int>
inline void give_registers() {
  emulator::meet_warp("setmaxnreg");
}
template <int>
inline void take_registers() {
  emulator::meet_warp("setmaxnreg");
}

}  // namespace convt3d::hopper
