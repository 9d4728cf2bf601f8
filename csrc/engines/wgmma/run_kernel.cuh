// The kernel of a plan, and its launch.
#pragma once

#include <stdexcept>
#include <type_traits>

#include "device/launch.cuh"
#include "engines/wgmma/kernel.cuh"
#include "engines/wgmma/run_kernel.h"

namespace convt3d::wgmma {

template <typename T>
using HaloKernel = void (*)(HaloParams<T>);

// The kernel of one of kHaloInstructions, if it is this one or a later one in the list.
template <typename T, bool kWide, int kIndex = 0>
HaloKernel<T> halo_forward_kernel(const HaloPlan& plan) {
  if constexpr (kIndex < kHaloInstructionCount) {
    constexpr HaloInstruction kIs = kHaloInstructions[kIndex];
    if constexpr (is_wide(kIs) == kWide && (kIs.terms == 1 || std::is_same_v<T, float>)) {
      if (plan.tile.instruction == kIs) {
        if constexpr (kIs.n_major && sizeof(T) == 2) {
          if (plan.load.n_major()) return convt3d_halo_forward<T, kIs.n, kIs.sets, kIs.terms, true>;
        }
        return convt3d_halo_forward<T, kIs.n, kIs.sets, kIs.terms, false>;
      }
    }
    return halo_forward_kernel<T, kWide, kIndex + 1>(plan);
  } else {
    throw std::logic_error("convt3d: no kernel for the plan " + to_string(plan));
  }
}

template <typename T, bool kWide>
void run_halo_forward(const HaloParams<T>& params, Stream stream) {
  const HaloPlan& plan = params.plan;
  // Without a weight to pack, the kernel before this one is not ours.
  const LaunchOrder order = plan.packed_bytes() > 0 ? LaunchOrder::kOverlapping : LaunchOrder::kAfter;
  launch("tensor-core forward", halo_forward_kernel<T, kWide>(plan), plan.grid.blocks, kHaloThreads, stream, params,
         plan.memory.bytes, order);
}

}  // namespace convt3d::wgmma
