// The bias's gradient beside the weight's: three warps sum rows of the tile of grad_output, those of the taps that
// reach each position of the output once (core/bias_taps.h), while others multiply them.
#pragma once

#include <type_traits>

#include "device/hopper.cuh"
#include "device/ptx/matrices.cuh"
#include "device/ptx/mma.cuh"
#include "device/swizzle.h"
#include "engines/wgmma/weight_grad/shared.cuh"

namespace convt3d {

// The bias's tap of a block's part along an axis; negative: none.
__device__ __forceinline__ int32_t bias_tap(const WgmmaWeightGradParams& params, const WgmmaGradWork& work, int axis) {
  const WgmmaGradTaps& taps = params.plan.taps[axis];
  for (int32_t tap = 0; tap < taps.count(work.part[axis]); ++tap) {
    const int32_t of_kernel = taps.first(work.part[axis]) + tap * taps.residues;
    if ((params.plan.bias[static_cast<size_t>(axis)] >> of_kernel & 1) != 0) return tap;
  }
  return -1;
}

// Blocks beside each other along the input channels have the same rows: those of the first sum them. A part has one tap
// of the bias, as all of one residue reach the same positions, or none.
__device__ __forceinline__ bool has_bias_rows(const WgmmaWeightGradParams& params, const WgmmaGradWork& work) {
  return params.bias != nullptr && work.m_chunk == 0 && bias_tap(params, work, 0) >= 0 &&
         bias_tap(params, work, 1) >= 0 && bias_tap(params, work, 2) >= 0;
}

// A warp takes every third step of a box, as products with ones: a panel's sums are in a row of the accumulators of its
// own. These are of a box, as tensor cores cut each sum, and join float32 sums. Positions past the input have rows of
// zeros, as the bias's taps then read past the output.
template <typename T>
class WgmmaGradBias {
 public:
  __device__ __forceinline__ WgmmaGradBias(const WgmmaWeightGradParams& params, const WgmmaGradShared& shared,
                                           const WgmmaGradWork& work, int warp)
      : params_(params), shared_(shared), work_(work), warp_(warp), lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ __forceinline__ void add_boxes() {
    const WgmmaWeightGradPlan& plan = params_.plan;
    const int32_t tap_w = bias_tap(params_, work_, 2) * plan.taps[2].shift * plan.images * kWgmmaGradRowBytes;
    const auto tile = static_cast<uint32_t>(plan.input.panels * plan.input.panel_bytes + tap_w +
                                            plan.shift_of(bias_tap(params_, work_, 0), bias_tap(params_, work_, 1), 0) +
                                            lane_ % 8 * kWgmmaGradRowBytes);
    for (WgmmaGradBoxes boxes(plan, work_.split); !boxes.ended(); boxes.advance()) {
      hopper::barrier_wait(&shared_.barriers->full[boxes.stage], boxes.parity);
      const uint32_t stage = hopper::shared_address(shared_.stages + boxes.stage * plan.stage_bytes());
      float c[kEights][4] = {};
      for (int step = warp_; step < plan.steps; step += kWgmmaGradBiasWarps) {
        // A lane names a row of its eight of the step.
        const uint32_t entry = shared_.steps[step];
        const uint32_t row = tile + ((entry & 0xFFFF) + (lane_ / 8 % 2 == 0 ? 0 : entry >> 16)) * 16;
        for (int panel = 0; panel < plan.grad.panels; ++panel) {
          add_step(c, stage, row + static_cast<uint32_t>(panel * plan.grad.panel_bytes), panel);
        }
      }
      __syncwarp();
      if (lane_ == 0) hopper::barrier_arrive(&shared_.barriers->empty[boxes.stage]);
#pragma unroll
      for (int i = 0; i < kEights; ++i) {
        sum_[i][0] += c[i][0];
        sum_[i][1] += c[i][1];
      }
    }
  }

  // The warp's sums, of the block's split and part of the taps.
  __device__ __forceinline__ void store() const {
    const WgmmaWeightGradPlan& plan = params_.plan;
    const int64_t part =
        (int64_t{work_.part[0]} * plan.taps[1].parts + work_.part[1]) * plan.taps[2].parts + work_.part[2];
    const int64_t parts = int64_t{plan.taps[0].parts} * plan.taps[1].parts * plan.taps[2].parts;
    const int64_t partial = (work_.split * parts + part) * kWgmmaGradBiasWarps + warp_;
    float* const to = params_.bias + (partial * plan.groups + work_.group) * plan.out_channels;
    const int32_t panel = lane_ / 4;  // whose row the lane has
    if (panel >= plan.grad.panels) return;
    const int32_t first = (work_.n_chunk * plan.grad.panels + panel) * kWgmmaGradPanelChannels + lane_ % 4 * 2;
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int32_t channel = first + i * 8 + j;
        if (channel < plan.out_channels) to[channel] = params_.joins ? to[channel] + sum_[i][j] : sum_[i][j];
      }
    }
  }

 private:
  static constexpr int kEights = kWgmmaGradPanelChannels / 8;
  static constexpr uint32_t kOnes = std::is_same_v<T, __half> ? 0x3C003C00 : 0x3F803F80;
  static_assert(kWgmmaGradMostPanels <= 8);  // rows that a lane's first two accumulators are of

  // Adds sixteen positions of a panel's channels. `row`: of the lane, in bytes from the stage.
  __device__ __forceinline__ void add_step(float (&c)[kEights][4], uint32_t stage, uint32_t row, int panel) const {
    const uint32_t flip = swizzle_flip(row, swizzle_mask(kWgmmaGradRowBytes));
    const uint32_t ones = lane_ / 4 == panel ? kOnes : 0;
    const uint32_t a[4] = {ones, 0, ones, 0};
#pragma unroll
    for (int i = 0; i < kEights; i += 2) {
      const auto piece = static_cast<uint32_t>((i + lane_ / 16) * 16);
      uint32_t b[4];
      load_matrices_transposed<4>(b, stage + row + (piece ^ flip));
      multiply_add<T>(c[i], a, {b[0], b[1]});
      multiply_add<T>(c[i + 1], a, {b[2], b[3]});
    }
  }

  const WgmmaWeightGradParams& params_;
  const WgmmaGradShared& shared_;
  const WgmmaGradWork& work_;
  int warp_;
  int lane_;
  float sum_[kEights][2] = {};
};

}  // namespace convt3d
