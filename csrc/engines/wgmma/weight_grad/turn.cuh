// The input's blocks, turned in a block's stages: rows of positions become rows of channels.
#pragma once

#include "device/hopper.cuh"
#include "device/ptx/numeric.cuh"
#include "device/two_terms.cuh"
#include "engines/wgmma/weight_grad/shared.cuh"

namespace convt3d {

// One panel of a block: rows of positions, each of 32 channels, become rows of channels, each of 32 positions in the
// order of K. By a warp, a lane a position. `low`: bytes to where the low terms are to be.
template <int kTerms>
__device__ __forceinline__ void turn_panel(const WgmmaWeightGradPlan& plan, uint32_t panel, uint32_t low) {
  constexpr int kPieces = kWgmmaGradRowBytes / 16;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t row = panel + static_cast<uint32_t>(lane) * kWgmmaGradRowBytes;
  uint4 pieces[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) pieces[i] = uint4{0, 0, 0, 0};
  if (lane < plan.block_positions()) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      pieces[i] = hopper::load_shared<uint4>(row + (static_cast<uint32_t>(i ^ lane % 8) << 4));
    }
  }
  __syncwarp();
  const auto column = static_cast<uint32_t>(lane / 8 * 8 + plan.k_of_row(lane % 8)) * 4;  // of K, in bytes
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const uint32_t words[4] = {pieces[i].x, pieces[i].y, pieces[i].z, pieces[i].w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int channel = 4 * i + j;
      const uint32_t to = panel + channel * kWgmmaGradRowBytes + (column ^ static_cast<uint32_t>(channel % 8 << 4));
      if constexpr (kTerms == 1) {
        hopper::store_shared(to, word_of_tf32(words[j]));
      } else {
        const TwoTerms terms = two_terms(__uint_as_float(words[j]));
        hopper::store_shared(to, terms.high);
        hopper::store_shared(to + low, terms.low);
      }
    }
  }
}

// By warps that turn, of which this one is `number`.
template <int kTerms>
__device__ __forceinline__ void turn_boxes(const WgmmaWeightGradPlan& plan, const WgmmaGradShared& shared,
                                           const WgmmaGradWork& work, int number) {
  const int32_t panels = plan.blocks_of_box() * plan.input.panels;
  const auto low = static_cast<uint32_t>(plan.turned_bytes());
  const uint32_t stages = hopper::shared_address(shared.stages);
  for (WgmmaGradBoxes boxes(plan, work.split); !boxes.ended(); boxes.advance()) {
    hopper::barrier_wait(&shared.barriers->full[boxes.stage], boxes.parity);
    const uint32_t stage = stages + static_cast<uint32_t>(boxes.stage * plan.stage_bytes());
    for (int32_t panel = number; panel < panels; panel += kWgmmaTurners) {
      turn_panel<kTerms>(plan, stage + static_cast<uint32_t>(panel * kWgmmaTurnedBlockBytes), low);
    }
    hopper::fence_async_proxy();
    __syncwarp();
    if (threadIdx.x % 32 == 0) hopper::barrier_arrive(&shared.barriers->turned[boxes.stage]);
  }
}

}  // namespace convt3d
