// The order of K: in which the weight is packed, the table of shifts is filled and products are added.
//
// A loop has the K steps of one phase outside M and one accumulator set, on one chunk of channels:
//   [offset along the depth][offset along the height][offset along the width][K step of the tap]
// Its weights begin with a stage and fill their last one up with zeros. The packed weight is
//   [group][tile of M][phase outside M][chunk][accumulator set][stage of the loop]
//   and a stage [K step][term][half of the step][row][16 bytes]
#pragma once

#include <cstdint>
#include <optional>

#include "core/host_device.h"
#include "core/one_or_two.h"
#include "device/small_quotient.h"
#include "engines/wgmma/plan/arrangement.h"
#include "engines/wgmma/plan/limits.h"
#include "engines/wgmma/plan/panels.h"
#include "engines/wgmma/plan/product.h"

namespace convt3d {

struct WgmmaLoops {
  int32_t chunks;
  int32_t phases;  // outside M
  OneOrTwo sets;
  OneOrTwo terms;
  int32_t tap_steps;                  // K steps of one tap
  int32_t steps[kWgmmaMaxLoops];      // K steps of a loop
  int32_t first[kWgmmaMaxLoops + 1];  // stage of a loop's first one, counted through all loops of one chunk

  CONVT3D_HOST_DEVICE int32_t count() const { return phases * sets; }
  // K steps and products in a stage.
  CONVT3D_HOST_DEVICE int32_t stage_steps() const { return terms.quotient(kWgmmaStageSlices); }
  // Which of a loop's stages has a K step, and the step's number in that stage.
  CONVT3D_HOST_DEVICE int32_t stage_of(int32_t step) const { return step >> (kWgmmaStageSlicesLog - terms.log()); }
  CONVT3D_HOST_DEVICE int32_t step_in_stage(int32_t step) const { return step & (stage_steps() - 1); }
  CONVT3D_HOST_DEVICE int32_t stage_products() const { return terms == 2 ? 3 * stage_steps() : stage_steps(); }
  CONVT3D_HOST_DEVICE int32_t chunk_stages(int32_t phase) const {
    return first[(phase + 1) * sets] - first[phase * sets];
  }
  // First stage of a phase, and the stages of a whole tile of M (phase = phases), in the packed weight.
  CONVT3D_HOST_DEVICE int32_t first_stage(int32_t phase) const { return chunks * first[phase * sets]; }
  CONVT3D_HOST_DEVICE int32_t stages() const { return first_stage(phases); }
  // Stage of the packed weight with which the phase begins in a tile of M, these counted through all groups.
  CONVT3D_HOST_DEVICE int64_t packed_stage(int64_t m_tile, int32_t phase) const {
    return m_tile * stages() + first_stage(phase);
  }
};

// K steps [begin, end) of a loop, from a stage of weights on.
struct WgmmaSteps {
  int32_t begin;
  int32_t end;
};

// The K steps of a loop but for those of so many offsets along the depth at its front and its back: in whole stages or,
// of two terms, pairs of stages. `depth_steps`: of one such offset.
CONVT3D_HOST_DEVICE inline WgmmaSteps steps_between(int32_t steps, int32_t depth_steps, int32_t front, int32_t back) {
  constexpr int32_t kMask = ~(kWgmmaStageSlices - 1);
  const int32_t begin = front * depth_steps & kMask;
  const int32_t end = (steps - back * depth_steps + kWgmmaStageSlices - 1) & kMask;
  return {begin, end < steps ? end : steps};
}

// Nothing where the kernel's table of shifts is too small.
std::optional<WgmmaLoops> make_loops(const WgmmaProduct& product, const WgmmaArrangement& arrangement,
                                     const WgmmaPanels& panels);

// Bytes of the packed weight of all groups.
inline int64_t packed_weight_bytes(const WgmmaProduct& product, const WgmmaArrangement& arrangement,
                                   const WgmmaLoops& loops) {
  return product.groups * arrangement.m_tiles * loops.stages() * kWgmmaWeightStageBytes;
}

// The tap of a loop's K steps by its numbers among the offsets of each axis.
struct WgmmaTapNumbers {
  int32_t depth;
  int32_t height;
  int32_t width;
};

// `widths`, `heights`: how many offsets the phase has.
CONVT3D_HOST_DEVICE inline WgmmaTapNumbers tap_numbers(int32_t tap, int32_t widths, int32_t heights) {
  WgmmaTapNumbers numbers;
  numbers.width = take_small(tap, widths);
  numbers.height = take_small(tap, heights);
  numbers.depth = tap;
  return numbers;
}

}  // namespace convt3d
