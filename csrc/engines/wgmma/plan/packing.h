// How threads share the packing of a plan's weight (pack_weight.cuh): each packs one row of one tap for some K steps. A
// warp has a few taps, which are neighbours in the weight, of a few rows, which are neighbours in the packed weight.
#pragma once

#include <cstdint>

#include "core/divisor.h"
#include "engines/wgmma/plan/plan.h"

namespace convt3d {

struct WgmmaPacking {
  // The taps of all loops and then, one for each K step, what fills their last stages.
  int32_t taps;
  int32_t entries;
  int16_t first_tap[kWgmmaMaxLoops];     // of each loop, among all; past the last loop none is
  int16_t first_filler[kWgmmaMaxLoops];  // the same of what fills last stages
  int32_t warp_entries_log;              // of a warp; the rest of its lanes are rows
  Divisor by_warp_entries;               // warps for all entries
  Divisor by_m_tiles;
  Divisor by_tap_steps;
  Divisor by_outputs;    // output channels of a layer's group
  int32_t group_inputs;  // input channels of a layer's group
  int32_t steps;         // K steps of one tap on all chunks
  int32_t part_steps;    // of a thread
  int64_t threads;
};

// Of a plan that packs its weight.
WgmmaPacking plan_packing(const WgmmaPlan& plan, int element_bytes);

}  // namespace convt3d
