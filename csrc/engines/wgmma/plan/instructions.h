// The instructions that the wgmma engine has kernels for: the search offers them, and run.cuh compiles them, in this
// order. What is not in the list has no plan and no kernel.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace convt3d {

struct WgmmaInstruction {
  int32_t n;     // columns of one instruction, a warpgroup's share of a tile
  int32_t sets;  // of accumulators
  int32_t terms;
  bool n_major;  // 16-bit elements have a kernel that reads N-major panels, too
  bool images;   // the kernel knows images that share a tile of a contiguous width

  constexpr bool operator==(const WgmmaInstruction& other) const {
    return n == other.n && sets == other.sets && terms == other.terms;
  }
};

// A thread has n / 2 sums of each set and, of two terms, n / 2 of the products that are yet to be added: 128 at most.
inline constexpr WgmmaInstruction kWgmmaInstructions[] = {
    {256, 1, 1, true, false}, {240, 1, 1, false, false}, {192, 1, 1, true, false},  {160, 1, 1, false, true},
    {128, 1, 1, true, false}, {128, 2, 1, true, false},  {128, 1, 2, false, false}, {80, 2, 1, false, true},
    {80, 2, 2, false, true},  {64, 1, 1, false, false},  {64, 2, 1, true, false},   {64, 1, 2, false, false},
    {64, 2, 2, false, false},
};
constexpr int kWgmmaInstructionCount = sizeof(kWgmmaInstructions) / sizeof(kWgmmaInstructions[0]);

// The kernels of wide instructions are compiled apart from the others, which together take about as long.
constexpr bool is_wide(const WgmmaInstruction& instruction) {
  return instruction.n >= 160 || instruction.n * instruction.sets > 160;
}

// Whether kernels of instructions of this kind know images that share a tile of a contiguous width.
constexpr bool wgmma_stores_images(int32_t n, int32_t sets) {
  for (const WgmmaInstruction& at : kWgmmaInstructions) {
    if (at.images && at.n == n && at.sets == sets) return true;
  }
  return false;
}

}  // namespace convt3d
