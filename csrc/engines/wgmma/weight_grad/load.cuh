// The boxes of both operands, copied to a block's stages.
#pragma once

#include "device/hopper.cuh"
#include "device/overlap.cuh"
#include "engines/wgmma/weight_grad/shared.cuh"

namespace convt3d {

// A box of the input, panel by panel; turned, block by block.
template <WgmmaGradForm kForm>
__device__ __forceinline__ void load_input_box(const WgmmaWeightGradParams& params, unsigned char* to, int32_t channel,
                                               int32_t image, const int32_t (&at)[3], uint64_t* full) {
  const WgmmaWeightGradPlan& plan = params.plan;
  if constexpr (kForm == WgmmaGradForm::kRows) {
    for (int panel = 0; panel < plan.input.panels; ++panel, to += plan.input.panel_bytes) {
      hopper::copy_box_to_shared(to, &params.input,
                                 {channel + panel * kWgmmaGradPanelChannels, image, at[2], at[1], at[0]}, full);
    }
  } else {
    for (int32_t d = 0; d < plan.box[0]; d += plan.block[0]) {
      for (int32_t h = 0; h < plan.box[1]; h += plan.block[1]) {
        for (int32_t w = 0; w < plan.box[2]; w += plan.block[2]) {
          for (int panel = 0; panel < plan.input.panels; ++panel, to += kWgmmaTurnedBlockBytes) {
            hopper::copy_box_to_shared(
                to, &params.input,
                {channel + panel * kWgmmaTurnedPanelChannels, image, at[2] + w, at[1] + h, at[0] + d}, full);
          }
        }
      }
    }
  }
}

// By one thread, which also waits for the kernel before: before it reads, or at the end where this kernel began beside
// that one, as what follows waits for this kernel alone.
template <WgmmaGradForm kForm>
__device__ __forceinline__ void load_grad_boxes(const WgmmaWeightGradParams& params, const WgmmaGradShared& shared,
                                                const WgmmaGradWork& work) {
  if (!params.plan.beside) wait_for_kernel_before();
  constexpr bool kTurned = kForm == WgmmaGradForm::kTurned;
  constexpr int kPanelChannels = kTurned ? kWgmmaTurnedPanelChannels : kWgmmaGradPanelChannels;
  const WgmmaWeightGradPlan& plan = params.plan;
  const int32_t input_rows = plan.box[0] * plan.box[1] * plan.box[2];
  const int32_t grad_rows = plan.grad.extent[0] * plan.grad.extent[1] * plan.grad.extent[2];
  const auto bytes = static_cast<uint32_t>(plan.images * kWgmmaGradRowBytes *
                                           (plan.input.panels * input_rows + plan.grad.panels * grad_rows));
  const int32_t in_channel =
      work.group * plan.in_channels + (kTurned ? work.n_chunk : work.m_chunk) * plan.input.panels * kPanelChannels;
  const int32_t out_channel =
      work.group * plan.out_channels + (kTurned ? work.m_chunk : work.n_chunk) * plan.grad.panels * kPanelChannels;
  int32_t origin[3];
#pragma unroll
  for (int i = 0; i < 3; ++i) origin[i] = plan.taps[i].origin(work.part[i]);
  for (WgmmaGradBoxes boxes(plan, work.split); !boxes.ended(); boxes.advance()) {
    int32_t rest = boxes.box;
    int32_t at[3];
#pragma unroll
    for (int i = 2; i >= 0; --i) at[i] = params.by_boxes[i].take(rest) * plan.box[i];
    const int32_t image = rest * plan.images;
    hopper::barrier_wait(&shared.barriers->empty[boxes.stage], boxes.parity ^ 1);
    uint64_t* const full = &shared.barriers->full[boxes.stage];
    hopper::barrier_arrive_expect(full, bytes);
    unsigned char* to = shared.stages + boxes.stage * plan.stage_bytes();
    load_input_box<kForm>(params, to, in_channel, image, at, full);
    to += plan.input_bytes();
#pragma unroll
    for (int i = 0; i < 3; ++i) at[i] = at[i] * plan.taps[i].step + origin[i];
    for (int panel = 0; panel < plan.grad.panels; ++panel, to += plan.grad.panel_bytes) {
      hopper::copy_box_to_shared(to, &params.grad, {out_channel + panel * kPanelChannels, image, at[2], at[1], at[0]},
                                 full);
    }
  }
  if (plan.beside) wait_for_kernel_before();
}

}  // namespace convt3d
