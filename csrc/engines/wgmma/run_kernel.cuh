// The kernel of a plan, and its launch.
#pragma once

#include <stdexcept>
#include <type_traits>

#include "device/launch.cuh"
#include "engines/wgmma/kernel.cuh"
#include "engines/wgmma/run_kernel.h"

namespace convt3d::wgmma {

template <typename T>
using WgmmaKernel = void (*)(WgmmaParams<T>);

// The kernel of one of kWgmmaInstructions, if it is this one or a later one in the list.
template <typename T, bool kWide, int kIndex = 0>
WgmmaKernel<T> wgmma_forward_kernel(const WgmmaPlan& plan) {
  if constexpr (kIndex < kWgmmaInstructionCount) {
    constexpr WgmmaInstruction kIs = kWgmmaInstructions[kIndex];
    if constexpr (is_wide(kIs) == kWide && (kIs.terms == 1 || std::is_same_v<T, float>)) {
      if (plan.tile.instruction == kIs) {
        if constexpr (kIs.n_major && sizeof(T) == 2) {
          if (plan.load.n_major()) return convt3d_halo_forward<T, kIs.n, kIs.sets, kIs.terms, true>;
        }
        return convt3d_halo_forward<T, kIs.n, kIs.sets, kIs.terms, false>;
      }
    }
    return wgmma_forward_kernel<T, kWide, kIndex + 1>(plan);
  } else {
    throw std::logic_error("convt3d: no kernel for the plan " + to_string(plan));
  }
}

template <typename T, bool kWide>
void run_wgmma_forward(const WgmmaParams<T>& params, Stream stream) {
  const WgmmaPlan& plan = params.plan;
  // Without a weight to pack, the kernel before this one is not ours.
  const LaunchOrder order = plan.packed_bytes() > 0 ? LaunchOrder::kOverlapping : LaunchOrder::kAfter;
  launch("tensor-core forward", wgmma_forward_kernel<T, kWide>(plan), plan.grid.blocks, kWgmmaThreads, stream, params,
         plan.memory.bytes, order);
}

}  // namespace convt3d::wgmma
