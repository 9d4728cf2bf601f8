// Threads, their registers and their time.
#pragma once

#include <cstdint>

namespace convt3d::hopper {

__device__ __forceinline__ void wait_clocks(uint32_t clocks) {
  uint32_t begin;
  uint32_t now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(begin));
  do {
    asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
  } while (now - begin < clocks);
}

// The next kernel of the stream may begin, if it was launched to overlap (LaunchOrder), once all blocks have said so.
__device__ __forceinline__ void allow_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
// Until the kernels that this one overlaps are done and what they wrote is visible.
__device__ __forceinline__ void wait_for_predecessors() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// The same value. What follows from it is computed where it is used: the compiler would compute it once, early, and
// keep it in registers that are not left.
template <typename T>
__device__ __forceinline__ T computed_here(T value) {
  static_assert(sizeof(T) == 4, "a value of one register");
  asm volatile("" : "+r"(value));
  return value;
}

// The number of the thread in its warp, read where it is used, as by computed_here().
__device__ __forceinline__ int lane_here() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// Neither is read sooner nor written later than here.
__device__ __forceinline__ void fence_register(float& value) { asm volatile("" : "+f"(value)::"memory"); }

// True in one lane of a warp, always the same. The compiler knows that there is no other.
__device__ __forceinline__ bool elect_lane() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred leads;\n"
      "elect.sync _|leads, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, leads;\n"
      "}\n"
      : "=r"(elected));
  return elected != 0;
}

// Sets the registers that each thread of a whole warpgroup has, a multiple of 8: fewer, or more.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace convt3d::hopper
