// Weight gradient of 16-bit elements on Hopper's matrix units. A block has one tile of the gradient, some taps of 64 or
// 128 input channels and 64 or more output channels, and a share of the boxes of positions. Its warps have roles,
// linked by barriers:
//   warpgroups 0, 1   multiply each box as it lies in shared memory, and store the tile
//   warpgroup 2       has boxes copied by one of its threads, ahead of the products
//
//   A (64 input channels x 16 positions)   rows of the input's tile
//   B (16 positions x N)                   rows of the tile of grad_output, shifted by the offset of the tap
#pragma once

#include <type_traits>

#include "device/hopper.cuh"
#include "device/numeric.cuh"
#include "device/overlap.cuh"
#include "engines/wgmma/weight_grad/load.cuh"
#include "engines/wgmma/weight_grad/shared.cuh"

namespace convt3d {

// Registers of a thread that multiplies, of one that does not.
constexpr int kWgmmaGradRegisters = 208;
constexpr int kWgmmaGradOtherRegisters = 88;

// The taps of a block's part, and what a number of its columns of sets stands for.
struct WgmmaGradColumns {
  int32_t taps[3];  // of the part
  int32_t count;    // columns of sets

  __device__ __forceinline__ WgmmaGradColumns(const WgmmaWeightGradPlan& plan, const WgmmaGradWork& work) {
#pragma unroll
    for (int i = 0; i < 3; ++i) taps[i] = plan.taps[i].count(work.part[i]);
    count = plan.columns_of_sets(taps[0], taps[1], taps[2]);
  }

  struct Column {
    int32_t depth;   // tap of the part
    int32_t height;  // tap of the part
    int32_t panel;   // of grad_output's channels, where taps along the width are in N
  };
  __device__ __forceinline__ Column at(const WgmmaWeightGradPlan& plan, int32_t number) const {
    const int32_t panel = take_small(number, plan.outer_panels());
    const int32_t height = take_small(number, taps[1]);
    return {number, height, panel};
  }
};

// The bias's tap of a part along an axis; negative: none. All taps of a part are of one residue, so that there is no
// second one.
__device__ __forceinline__ int32_t bias_tap(const WgmmaWeightGradPlan& plan, const WgmmaGradWork& work, int axis) {
  const WgmmaGradTaps& taps = plan.taps[axis];
  for (int32_t tap = 0; tap < taps.count(work.part[axis]); ++tap) {
    const int32_t of_kernel = taps.first(work.part[axis]) + tap * taps.residues;
    if ((plan.bias[static_cast<size_t>(axis)] >> of_kernel & 1) != 0) return tap;
  }
  return -1;
}

// The operands of a warpgroup in a stage, and how far each is from there, in units of 16 bytes.
template <int kSets>
struct WgmmaGradOperands {
  hopper::MatrixDescriptor a;     // the input's rows
  hopper::MatrixDescriptor b;     // grad_output's rows, to which each step adds its own
  uint32_t shift[kSets];          // of a set's tap and panel
  uint32_t bias;                  // of the bias's tap and the warpgroup's panel
  hopper::MatrixDescriptor ones;  // columns of ones
};

// The sums of one warpgroup. kPanels, kSets: of the plan's instruction.
template <int kPanels, int kSets>
class WgmmaGradSums {
 public:
  static constexpr int kColumns = kPanels * kWgmmaGradPanelChannels;

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) c_[set][i] = 0;
    }
#pragma unroll
    for (float& sum : bias_) sum = 0;
  }

  // Of the first kActive sets and, kBias, of the bias's rows: these are A there, and B is ones. `at`: the stage, in
  // units of 16 bytes. `release` is called when all products before those of the box are done. The last ones of the box
  // may not be done at the end.
  template <typename T, int kActive, bool kBias, typename Release>
  __device__ __forceinline__ void multiply(int steps, const uint32_t* table, const WgmmaGradOperands<kSets>& of,
                                           uint32_t at, Release&& release) {
    constexpr uint32_t kStep = kWgmmaGradStep * kWgmmaGradRowBytes / 16;
    hopper::MatrixDescriptor a = of.a + at;
    const hopper::MatrixDescriptor b = of.b + at;
    const auto multiply_step = [&](hopper::MatrixDescriptor rows, uint32_t entry) {
      const hopper::MatrixDescriptor columns{b.begin + (entry & 0xFFFF), b.form + (entry >> 16)};
#pragma unroll
      for (int set = 0; set < kActive; ++set) {
        hopper::Wgmma<T, kColumns>::template multiply<true, true, true>(c_[set], rows.bits(),
                                                                        (columns + of.shift[set]).bits());
      }
      if constexpr (kBias) {
        hopper::Wgmma<T, 8>::template multiply<true, false, true>(bias_, (columns + of.bias).bits(), of.ones.bits());
      }
    };
    const auto end_group = [&] {
      hopper::wgmma_commit();
      hopper::wgmma_wait<1>();
      release();
    };
    uint32_t address = hopper::shared_address(table);
    uint4 next = hopper::load_shared<uint4>(address);
#pragma unroll 1
    for (int group = 0; group < steps / kWgmmaGradGroupSteps; ++group) {
      const uint4 entries = next;
      address += sizeof(uint4);
      next = hopper::load_shared<uint4>(address);  // before the products, which take longer; past the end, too
      hopper::wgmma_fence();
      multiply_step(a, entries.x);
      multiply_step(a + kStep, entries.y);
      multiply_step(a + 2 * kStep, entries.z);
      multiply_step(a + 3 * kStep, entries.w);
      a = a + 4 * kStep;
      end_group();
    }
    table += steps / kWgmmaGradGroupSteps * kWgmmaGradGroupSteps;
#pragma unroll 1
    for (int step = 0; step < steps % kWgmmaGradGroupSteps; ++step, a = a + kStep) {
      hopper::wgmma_fence();
      multiply_step(a, table[step]);
      end_group();
    }
  }

  // Once all products are done.
  __device__ __forceinline__ void fence() {
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) hopper::fence_register(c_[set][i]);
    }
#pragma unroll
    for (float& sum : bias_) hopper::fence_register(sum);
  }

  // `active` sets, of columns `first` and the next, to the partial gradient or, `joins`, added to what is there.
  // `in_channel`: of the warpgroup's first row.
  __device__ __forceinline__ void store(const WgmmaWeightGradParams& params, const WgmmaGradWork& work,
                                        const WgmmaGradColumns& columns, int32_t first, int32_t active,
                                        int32_t in_channel, bool joins) const {
    const WgmmaWeightGradPlan& plan = params.plan;
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int32_t row = in_channel + 16 * warp + lane / 4;
    const int32_t pitch = plan.n_pitch();
    float* const partial = params.partial + work.split * plan.gradient_elements();
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      if (set >= active) break;
      const WgmmaGradColumns::Column column = columns.at(plan, first + set);
      const int32_t tap_d = plan.taps[0].first(work.part[0]) + column.depth * plan.taps[0].residues;
      const int32_t tap_h = plan.taps[1].first(work.part[1]) + column.height * plan.taps[1].residues;
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
        const int32_t width = plan.taps_in_n() ? panel : 0;
        if (width >= columns.taps[2]) break;
        const int32_t tap_w = plan.taps[2].first(work.part[2]) + width * plan.taps[2].residues;
        const int32_t channels = plan.taps_in_n() ? column.panel : panel;
        const int32_t out_channel =
            (work.n_chunk * plan.grad.panels + channels) * kWgmmaGradPanelChannels + 2 * (lane % 4);
        const int64_t tap = (int64_t{work.group} * plan.taps[0].taps + tap_d) * plan.taps[1].taps + tap_h;
        float* const to = partial + (tap * plan.taps[2].taps + tap_w) * plan.in_channels * pitch + out_channel;
        store_grad_sums<kWgmmaGradPanelChannels>(c_[set] + panel * kWgmmaGradPanelChannels / 2,
                                                 to + int64_t{row} * pitch, pitch, plan.out_channels - out_channel,
                                                 row < plan.in_channels, row + 8 < plan.in_channels, joins);
      }
    }
  }

  // The sums of the bias's rows, zeros of a part without the bias's tap. `panel`: the warpgroup's.
  __device__ __forceinline__ void store_bias(const WgmmaWeightGradParams& params, const WgmmaGradWork& work,
                                             int32_t panel, bool joins) const {
    const WgmmaWeightGradPlan& plan = params.plan;
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane % 4 != 0) return;  // all columns are the same
    const int64_t part =
        (int64_t{work.part[0]} * plan.taps[1].parts + work.part[1]) * plan.taps[2].parts + work.part[2];
    const int64_t parts = int64_t{plan.taps[0].parts} * plan.taps[1].parts * plan.taps[2].parts;
    float* const to = params.bias + ((work.split * parts + part) * plan.groups + work.group) * plan.out_channels;
    const int32_t channel = (work.n_chunk * plan.grad.panels + panel) * kWgmmaGradPanelChannels + 16 * warp + lane / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (channel + 8 * half >= plan.out_channels) continue;
      float& sum = to[channel + 8 * half];
      sum = joins ? sum + bias_[2 * half] : bias_[2 * half];
    }
  }

 private:
  float c_[kSets][kColumns / 2];
  float bias_[4];
};

template <typename T, int kPanels, int kSets>
__device__ __forceinline__ void multiply_grad_boxes(const WgmmaWeightGradParams& params, const WgmmaGradShared& shared,
                                                    const WgmmaGradWork& work) {
  const WgmmaWeightGradPlan& plan = params.plan;
  const bool second = hopper::warp_index() >= 4;
  const int32_t m_panel = second && !plan.shares_columns() ? 1 : 0;
  const WgmmaGradColumns columns(plan, work);
  // The first warpgroup has one more of an odd number.
  const int32_t half = (columns.count + 1) / 2;
  const int32_t first = second && plan.shares_columns() ? half : 0;
  const int32_t active = !plan.shares_columns() ? columns.count : second ? columns.count - half : half;
  const uint32_t stages = hopper::shared_address(shared.stages);
  WgmmaGradOperands<kSets> operands;
  operands.a = hopper::swizzled_descriptor(stages, kWgmmaGradRowBytes) +
               static_cast<uint32_t>(m_panel * plan.input.panel_bytes / 16);
  operands.b = hopper::swizzled_descriptor(stages, kWgmmaGradRowBytes, static_cast<uint32_t>(plan.panel_shift())) +
               static_cast<uint32_t>(plan.input.panels * plan.input.panel_bytes / 16);
  operands.b.form -= 8 * kWgmmaGradRowBytes / 16;  // the table of steps has it
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
    const WgmmaGradColumns::Column column = columns.at(plan, min(first + set, columns.count - 1));
    operands.shift[set] = static_cast<uint32_t>(plan.shift_of(column.depth, column.height, column.panel)) / 16;
  }
  // Blocks beside each other along the input channels have the same rows of the bias's: the first one has their sums.
  const int32_t warpgroup = second ? 1 : 0;
  const bool has_bias = params.bias != nullptr && work.m_chunk == 0 && warpgroup < plan.grad.panels;
  const int32_t tap[3] = {bias_tap(plan, work, 0), bias_tap(plan, work, 1), bias_tap(plan, work, 2)};
  const bool sums_bias = has_bias && tap[0] >= 0 && tap[1] >= 0 && tap[2] >= 0;
  operands.bias = static_cast<uint32_t>(plan.shift_of(tap[0], tap[1], warpgroup) +
                                        tap[2] * plan.taps[2].shift * plan.images * kWgmmaGradRowBytes) /
                  16;
  operands.ones = hopper::swizzled_descriptor(hopper::shared_address(shared.ones), kWgmmaGradOnesBytes / 8);
  const int32_t in_channel = (work.m_chunk * plan.input.panels + m_panel) * kWgmmaGradPanelChannels;
  const auto stage_step = static_cast<uint32_t>(plan.stage_bytes() / 16);
  WgmmaGradSums<kPanels, kSets> sums;
  sums.clear();
  int32_t held = -1;  // stage whose products may not be done
  const auto release = [&] {
    if (held >= 0 && threadIdx.x % 32 == 0) hopper::barrier_arrive(&shared.barriers->empty[held]);
    held = -1;
  };
  const auto multiply_box = [&](const WgmmaGradBoxes& boxes) {
    hopper::barrier_wait(&shared.barriers->full[boxes.stage], boxes.parity);
    const auto multiply = [&](auto sets, auto bias) {
      sums.template multiply<T, decltype(sets)::value, decltype(bias)::value>(
          plan.steps, shared.steps, operands, static_cast<uint32_t>(boxes.stage) * stage_step, release);
    };
    const auto multiply_sets = [&](auto bias) {
      if (active == kSets || active > 2) {
        multiply(std::integral_constant<int, kSets>(), bias);
      } else if (kSets > 2 && active == 2) {
        multiply(std::integral_constant<int, kSets == 4 ? 2 : 0>(), bias);
      } else if (kSets > 1 && active == 1) {
        multiply(std::integral_constant<int, kSets == 1 ? 0 : 1>(), bias);
      } else if constexpr (decltype(bias)::value) {
        multiply(std::integral_constant<int, 0>(), bias);
      } else {
        __syncwarp();  // all lanes have waited for the box
        release();
      }
    };
    if (sums_bias) {
      multiply_sets(std::true_type());
    } else {
      multiply_sets(std::false_type());
    }
    held = boxes.stage;
  };
  sum_grad_boxes(plan, work.split, params.joins, multiply_box, [&](bool joins, bool ended) {
    hopper::wgmma_wait<0>();
    sums.fence();
    release();
    sums.store(params, work, columns, first, active, in_channel, joins);
    if (has_bias) sums.store_bias(params, work, warpgroup, joins);
    if (!ended) sums.clear();
  });
}

template <typename T, int kPanels, int kSets>
__global__ void __launch_bounds__(kWgmmaGradThreads, 1)
    convt3d_halo_weight_grad(const __grid_constant__ WgmmaWeightGradParams params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // elsewhere an empty body, which the plan never chooses
  begin_dependents();
  const WgmmaWeightGradPlan& plan = params.plan;
  const WgmmaGradShared shared;
  const WgmmaGradWork work(params);
  const int warp = hopper::warp_index();
  if (warp >= kWgmmaGradWarps) {
    if (warp == kWgmmaGradWarps) {
      begin_grad_barriers(shared, 0);
    } else {
      arrive_threads(kWgmmaGradBegun, kWgmmaGradThreads);
    }
    hopper::give_registers<kWgmmaGradOtherRegisters>();
    if (threadIdx.x == 32 * kWgmmaGradWarps) load_grad_boxes<WgmmaGradForm::kRows>(params, shared, work);
  } else {
    for (int step = static_cast<int>(threadIdx.x); step < plan.steps; step += 32 * kWgmmaGradWarps) {
      const int32_t row = plan.grad_row(step * kWgmmaGradStep);
      const int32_t further = plan.grad_row(step * kWgmmaGradStep + kWgmmaGradStep / 2);
      constexpr int kUnits = kWgmmaGradRowBytes / 16;
      shared.steps[step] = static_cast<uint32_t>(row * kUnits | (further - row) * kUnits << 16);
    }
    if (params.bias != nullptr && threadIdx.x < kWgmmaGradOnesBytes / sizeof(T)) {
      reinterpret_cast<T*>(shared.ones)[threadIdx.x] = from_accumulator<T>(1.0f);
      hopper::fence_async_proxy();
    }
    sync_threads(kWgmmaGradBegun, kWgmmaGradThreads);
    hopper::take_registers<kWgmmaGradRegisters>();
    multiply_grad_boxes<T, kPanels, kSets>(params, shared, work);
  }
#endif
}

}  // namespace convt3d
