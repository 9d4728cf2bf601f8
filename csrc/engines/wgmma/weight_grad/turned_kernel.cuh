// Weight gradient of 32-bit elements on Hopper's matrix units, whose products take an operand in shared memory with K
// contiguous alone. A block has one tile of the gradient, some taps of 64 or 128 output channels and 32 or more input
// channels, and a share of the boxes of positions. Its warps have roles, linked by barriers:
//   warpgroups 0, 1   multiply: each set of accumulators is a tap
//   warp 8            has boxes copied by one of its threads, ahead of the others
//   warps 9-11        turn the input's blocks in place: rows of positions become rows of channels
//
//   A (64 output channels x 8 positions)  rows of the tile of grad_output, shifted by the tap, through registers
//   B (8 positions x N input channels)    the turned input, which all taps share
#pragma once

#include <type_traits>

#include "device/hopper.cuh"
#include "device/overlap.cuh"
#include "engines/wgmma/weight_grad/load.cuh"
#include "engines/wgmma/weight_grad/shared.cuh"
#include "engines/wgmma/weight_grad/turn.cuh"
#include "engines/wgmma/weight_grad/turned_sums.cuh"

namespace convt3d {

// Registers of a thread that multiplies, of one that does not.
constexpr int kWgmmaTurnedRegisters = 208;
constexpr int kWgmmaTurnedOtherRegisters = 88;

// A tap: of the part, then of the kernel.
struct TurnedGradTap {
  int32_t of_part[3];
  int32_t of_kernel[3];

  // That of a set of a group, whose first one is the group's.
  __device__ __forceinline__ TurnedGradTap(const WgmmaWeightGradPlan& plan, const WgmmaGradWork& work, int32_t group,
                                           int32_t width) {
    const bool alone = plan.instruction.widths == 1;
#pragma unroll
    for (int i = 2; i >= 0; --i) {
      const int32_t count = i == 2 && !alone ? 1 : plan.taps[i].count(work.part[i]);
      of_part[i] = take_small(group, count) + (i == 2 && !alone ? width : 0);
      of_kernel[i] = plan.taps[i].first(work.part[i]) + of_part[i] * plan.taps[i].residues;
    }
  }
  // False of a part with fewer taps than others.
  __device__ __forceinline__ bool exists(const WgmmaWeightGradPlan& plan, const WgmmaGradWork& work) const {
    return of_part[2] < plan.taps[2].count(work.part[2]);
  }
  // Rows of the tile from those of the part's first tap.
  __device__ __forceinline__ int32_t shift(const WgmmaWeightGradPlan& plan) const {
    return plan.shift_of(of_part[0], of_part[1], 0) / kWgmmaGradRowBytes +
           of_part[2] * plan.taps[2].shift * plan.images;
  }
  __device__ __forceinline__ bool sums_bias(const WgmmaWeightGradPlan& plan) const {
    bool sums = true;
#pragma unroll
    for (int i = 0; i < 3; ++i) sums = sums && (plan.bias[static_cast<size_t>(i)] >> of_kernel[i] & 1) != 0;
    return sums;
  }
};

// A warpgroup's tile, of a segment: to the partial gradients or, `joins`, added to what is there.
template <int kColumns, int kSets, int kWidths, int kTerms>
__device__ __forceinline__ void store_turned_sums(const WgmmaWeightGradParams& params, const WgmmaGradWork& work,
                                                  const TurnedGradSums<kColumns, kSets, kWidths, kTerms>& sums,
                                                  int32_t first, int32_t active, int32_t m_channel, bool joins) {
  const WgmmaWeightGradPlan& plan = params.plan;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int32_t row = m_channel + 16 * (static_cast<int>(threadIdx.x) / 32 % 4) + lane / 4;
  const int32_t column = work.n_chunk * kColumns + 2 * (lane % 4);
  const int32_t pitch = plan.n_pitch();
  float* const partial = params.partial + work.split * plan.gradient_elements();
#pragma unroll 1
  for (int set = 0; set < active * kWidths; ++set) {
    const TurnedGradTap tap(plan, work, first + set / kWidths, set % kWidths);
    if (!tap.exists(plan, work)) continue;
    const int64_t line =
        ((int64_t{work.group} * plan.taps[0].taps + tap.of_kernel[0]) * plan.taps[1].taps + tap.of_kernel[1]) *
            plan.taps[2].taps +
        tap.of_kernel[2];
    sums.store(set, partial + (line * plan.out_channels + row) * pitch + column, pitch, plan.in_channels - column,
               row < plan.out_channels, row + 8 < plan.out_channels, joins);
  }
}

template <int kColumns, int kSets, int kWidths, int kTerms>
__device__ __forceinline__ void multiply_turned_boxes(const WgmmaWeightGradParams& params,
                                                      const WgmmaGradShared& shared, const WgmmaGradWork& work) {
  const WgmmaWeightGradPlan& plan = params.plan;
  const int warp = hopper::warp_index() % 4;
  const bool second = hopper::warp_index() >= 4;
  const bool shares = plan.shares_columns();
  const int32_t m_panel = second && !shares ? kWgmmaTurnedRows / kWgmmaTurnedPanelChannels : 0;
  const int32_t count = plan.columns_of_sets(plan.taps[0].count(work.part[0]), plan.taps[1].count(work.part[1]),
                                             plan.taps[2].count(work.part[2]));
  // The first warpgroup has one more of an odd number.
  const int32_t half = (count + 1) / 2;
  const int32_t first = second && shares ? half : 0;
  const int32_t active = !shares ? count : second ? count - half : half;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Blocks beside each other along the input channels have the same rows of the bias's: the first one has their sums.
  const bool has_bias = params.bias != nullptr && work.n_chunk == 0;
  constexpr int kGroups = kSets / kWidths;
  TurnedGradOperands<kGroups> operands;
  const uint32_t stages = hopper::shared_address(shared.stages);
  operands.a = stages + static_cast<uint32_t>(plan.input_bytes() + (m_panel + warp / 2) * plan.grad.panel_bytes);
  operands.channel = static_cast<uint32_t>((warp % 2 * 16 + lane / 4) * sizeof(float));
  operands.b = hopper::swizzled_descriptor(stages, kWgmmaGradRowBytes);
  operands.bias_sets = 0;
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    operands.shift[group] = TurnedGradTap(plan, work, min(first + group, count - 1), 0).shift(plan);
#pragma unroll
    for (int width = 0; width < kWidths; ++width) {
      const TurnedGradTap tap(plan, work, min(first + group, count - 1), width);
      const bool sums = has_bias && group < active && tap.exists(plan, work) && tap.sums_bias(plan);
      if (sums) operands.bias_sets |= 1u << (group * kWidths + width);
    }
  }
  const int32_t m_channel = work.m_chunk * plan.chunk_rows() + m_panel * kWgmmaTurnedPanelChannels;
  TurnedGradSums<kColumns, kSets, kWidths, kTerms> sums;
  sums.clear();
  const auto multiply_box = [&](const WgmmaGradBoxes& boxes) {
    hopper::barrier_wait(&shared.barriers->full[boxes.stage], boxes.parity);
    hopper::barrier_wait(&shared.barriers->turned[boxes.stage], boxes.parity);
    const auto stage = static_cast<uint32_t>(boxes.stage * plan.stage_bytes());
    const auto multiply = [&](auto groups) {
      constexpr int kActive = decltype(groups)::value;
      if constexpr (kActive <= kGroups) {
        if (active == kActive) sums.template multiply<kActive>(plan, shared.rows, operands, stage);
      }
    };
    multiply(std::integral_constant<int, 4>());
    multiply(std::integral_constant<int, 3>());
    multiply(std::integral_constant<int, 2>());
    multiply(std::integral_constant<int, 1>());
    __syncwarp();  // all lanes have waited for the box
    if (lane == 0) hopper::barrier_arrive(&shared.barriers->empty[boxes.stage]);
  };
  sum_grad_boxes(plan, work.split, params.joins, multiply_box, [&](bool joins, bool ended) {
    store_turned_sums(params, work, sums, first, active, m_channel, joins);
    if (has_bias) {
      const int64_t part =
          (int64_t{work.part[0]} * plan.taps[1].parts + work.part[1]) * plan.taps[2].parts + work.part[2];
      const int64_t share = (work.split * plan.parts() + part) * plan.bias_shares() + (second && shares ? 1 : 0);
      float* const to = params.bias + (share * plan.groups + work.group) * plan.out_channels;
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float sum = sums.bias(row);
        const int32_t channel = m_channel + 16 * warp + lane / 4 + 8 * row;
        if (lane % 4 == 0 && channel < plan.out_channels) to[channel] = joins ? to[channel] + sum : sum;
      }
    }
    if (!ended) sums.clear();
  });
}

template <int kColumns, int kSets, int kWidths, int kTerms>
__global__ void __launch_bounds__(kWgmmaGradThreads, 1)
    convt3d_halo_weight_grad_turned(const __grid_constant__ WgmmaWeightGradParams params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // elsewhere an empty body, which the plan never chooses
  begin_dependents();
  const WgmmaWeightGradPlan& plan = params.plan;
  const WgmmaGradShared shared;
  const WgmmaGradWork work(params);
  const int warp = hopper::warp_index();
  if (warp >= kWgmmaGradWarps) {
    if (warp == kWgmmaGradWarps) {
      begin_grad_barriers(shared, kWgmmaTurners);
    } else {
      sync_threads(kWgmmaGradBegun, kWgmmaGradThreads);
    }
    hopper::give_registers<kWgmmaTurnedOtherRegisters>();
    if (warp > kWgmmaGradWarps) {
      turn_boxes<kTerms>(plan, shared, work, warp - kWgmmaGradWarps - 1);
    } else if (threadIdx.x == 32 * kWgmmaGradWarps) {
      load_grad_boxes<WgmmaGradForm::kTurned>(params, shared, work);
    }
  } else {
    for (int i = static_cast<int>(threadIdx.x); i < 4 * (plan.steps + kWgmmaTurnedStepsAhead);
         i += 32 * kWgmmaGradWarps) {
      const int32_t step = i / 4;  // some more than there are, without positions
      int32_t of_box = step;       // the block
      const int32_t of_block = take_small(of_box, plan.block_steps()) * kWgmmaTurnedStep;
      uint32_t entry = 0;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int32_t position = of_block + plan.row_of_k(i % 4 + 4 * half);
        const bool exists = step < plan.steps && position < plan.block_positions();
        // Zeros of the input meet a row that counts for all taps anyway.
        const int32_t row = exists ? plan.turned_row(of_box, position) : 0;
        entry |= (static_cast<uint32_t>(row) | (exists ? 0 : kWgmmaTurnedMissing)) << 16 * half;
      }
      shared.rows[i] = entry;
    }
    sync_threads(kWgmmaGradBegun, kWgmmaGradThreads);
    hopper::take_registers<kWgmmaTurnedRegisters>();
    multiply_turned_boxes<kColumns, kSets, kWidths, kTerms>(params, shared, work);
  }
#endif
}

}  // namespace convt3d