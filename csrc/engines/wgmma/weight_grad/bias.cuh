// The bias's gradient beside the weight's: three warps sum rows of the tile of grad_output, those of the taps that
// reach each position of the output once (core/bias_taps.h), while others multiply them.
#pragma once

#include "device/hopper.cuh"
#include "device/numeric.cuh"
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

// A warp takes every third group of eight rows of a box. A lane has eight channels of each panel, of two of the rows.
// Positions past the input have rows of zeros, as the bias's taps then read past the output.
template <typename T>
class WgmmaGradBias {
 public:
  __device__ __forceinline__ WgmmaGradBias(const WgmmaWeightGradParams& params, const WgmmaGradShared& shared,
                                           const WgmmaGradWork& work, int warp)
      : params_(params), shared_(shared), work_(work), warp_(warp), lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ __forceinline__ void add_boxes() {
    const WgmmaWeightGradPlan& plan = params_.plan;
    const int32_t tap_w = bias_tap(params_, work_, 2) * plan.taps[2].shift * plan.images * kWgmmaGradRowBytes;
    const int32_t begin = plan.input.panels * plan.input.panel_bytes + tap_w +
                          plan.shift_of(bias_tap(params_, work_, 0), bias_tap(params_, work_, 1), 0) +
                          lane_ * kPieceBytes;
    const uint32_t mask = swizzle_mask(kWgmmaGradRowBytes);
    for (WgmmaGradBoxes boxes(plan, work_.split); !boxes.ended(); boxes.advance()) {
      hopper::barrier_wait(&shared_.barriers->full[boxes.stage], boxes.parity);
      const unsigned char* const stage = shared_.stages + boxes.stage * plan.stage_bytes();
      for (int group = warp_; group < 2 * plan.steps; group += kWgmmaGradBiasWarps) {
        const uint32_t entry = shared_.steps[group / 2];
        const uint32_t first = (entry & 0xFFFF) + (group % 2 == 0 ? 0 : entry >> 16);
#pragma unroll
        for (int panel = 0; panel < kWgmmaGradMostPanels; ++panel) {
          if (panel >= plan.grad.panels) break;
          const uint32_t at = static_cast<uint32_t>(begin + panel * plan.grad.panel_bytes) + first * 16;
          add(panel, *reinterpret_cast<const uint4*>(stage + swizzled(at, mask)));
          add(panel, *reinterpret_cast<const uint4*>(stage + swizzled(at + 4 * kWgmmaGradRowBytes, mask)));
        }
      }
      __syncwarp();
      if (lane_ == 0) hopper::barrier_arrive(&shared_.barriers->empty[boxes.stage]);
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
#pragma unroll
    for (int panel = 0; panel < kWgmmaGradMostPanels; ++panel) {
      if (panel >= plan.grad.panels) break;
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        float sum = sum_[panel][i];
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, kLanePieces);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2 * kLanePieces);
        const int32_t channel =
            (work_.n_chunk * plan.grad.panels + panel) * kWgmmaGradPanelChannels + lane_ % kLanePieces * kChannels + i;
        if (lane_ >= kLanePieces || channel >= plan.out_channels) continue;
        to[channel] = params_.joins ? to[channel] + sum : sum;
      }
    }
  }

 private:
  static constexpr int kPieceBytes = 16;
  static constexpr int kChannels = kPieceBytes / static_cast<int>(sizeof(T));
  static constexpr int kLanePieces = kWgmmaGradRowBytes / kPieceBytes;  // lanes that have one row

  __device__ __forceinline__ void add(int panel, const uint4& piece) {
    const T* const values = reinterpret_cast<const T*>(&piece);
#pragma unroll
    for (int i = 0; i < kChannels; ++i) sum_[panel][i] += to_accumulator(values[i]);
  }

  const WgmmaWeightGradParams& params_;
  const WgmmaGradShared& shared_;
  const WgmmaGradWork& work_;
  int warp_;
  int lane_;
  float sum_[kWgmmaGradMostPanels][kChannels] = {};
};

}  // namespace convt3d
