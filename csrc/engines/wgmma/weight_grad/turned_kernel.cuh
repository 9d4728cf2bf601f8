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
#include "device/ptx/numeric.cuh"
#include "device/two_terms.cuh"
#include "engines/wgmma/weight_grad/load.cuh"
#include "engines/wgmma/weight_grad/shared.cuh"

namespace convt3d {

// Registers of a thread that multiplies, of one that does not.
constexpr int kWgmmaTurnedRegisters = 208;
constexpr int kWgmmaTurnedOtherRegisters = 88;
constexpr uint32_t kWgmmaTurnedMissing = 0x8000;  // of an entry of the table of rows: no such position
constexpr uint32_t kWgmmaTurnedRow = kWgmmaTurnedMissing - 1;

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
  // The column of K at which the lane's position is: row_of_k() the other way round.
  const int of_eight = lane % 8;
  const int k = plan.pairs_of_rows != 0 ? of_eight / 2 + of_eight % 2 * 4 : of_eight;
  const auto column = static_cast<uint32_t>(lane - of_eight + k) * 4;
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

// A of a step and a tap: this thread's words.
template <int kTerms>
struct TurnedGradFragment {
  uint32_t high[4];
  uint32_t low[kTerms == 1 ? 1 : 4];
};

// The operands of a warpgroup in a stage. A group of sets is a tap, or neighbouring taps along the width.
template <int kGroups>
struct TurnedGradOperands {
  uint32_t a;                  // of the tile of grad_output, the panel with this thread's channels
  uint32_t channel;            // where this thread's first channel is in a row, before the swizzle
  int32_t shift[kGroups];      // rows of a group's first tap
  hopper::MatrixDescriptor b;  // the input's rows
  uint32_t bias_sets;          // a bit of each set: its rows are summed to the bias's gradient
};

// The sums of one warpgroup.
template <int kColumns, int kSets, int kWidths, int kTerms>
class TurnedGradSums {
 public:
  static constexpr int kGroups = kSets / kWidths;

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) c_[set][i] = 0;
    }
    bias_[0] = bias_[1] = 0;
  }

  // A box, of the first kActive groups; all is done at the end. `stage`: bytes from the first one.
  template <int kActive>
  __device__ __forceinline__ void multiply(const WgmmaWeightGradPlan& plan, const uint32_t* rows,
                                           const TurnedGradOperands<kGroups>& of, uint32_t stage) {
    constexpr int kActiveSets = kActive * kWidths;
    // Of two terms there are no registers for more.
    constexpr int kBuffers = kTerms == 1 ? 2 : 1;
    TurnedGradFragment<kTerms> a[kBuffers][kActiveSets];
    const uint32_t tile = of.a + stage;
    const uint32_t table = hopper::shared_address(rows) + threadIdx.x % 4 * sizeof(uint32_t);
    const int32_t block_steps = plan.block_steps();
    const auto next_block = static_cast<uint32_t>(plan.block_bytes()) / 16 - (block_steps - 1) * kStepUnits;
    const auto low = static_cast<uint32_t>(plan.turned_bytes()) / 16;
    hopper::MatrixDescriptor b = of.b + stage / 16;
    int32_t of_block = 0;
    float values[kActive][kWidths + 1][2];
    uint32_t entry = hopper::load_shared<uint32_t>(table);
    uint32_t entry_after = 0;  // of the step after
    // Words are on their way while the products before theirs are issued, which takes as long as they run.
    const auto fetch = [&](int32_t step_after) {
      entry_after = hopper::load_shared<uint32_t>(table + static_cast<uint32_t>(step_after) * 4 * sizeof(uint32_t));
#pragma unroll
      for (int group = 0; group < kActive; ++group) fetch_group(of, group, tile, entry, values[group]);
    };
    const auto convert = [&](TurnedGradFragment<kTerms>(&to)[kActiveSets]) {
#pragma unroll
      for (int group = 0; group < kActive; ++group) {
        convert_group(of, group, entry, values[group], to + group * kWidths);
      }
      entry = entry_after;
    };
    const auto issue = [&](const TurnedGradFragment<kTerms>(&from)[kActiveSets]) {
      hopper::wgmma_fence();
#pragma unroll
      for (int set = 0; set < kActiveSets; ++set) {
        if constexpr (kTerms == 1) {
          Product::multiply(c_[set], from[set].high, b.bits());
        } else {
          Product::multiply(products_[set], from[set].low, b.bits());
          Product::multiply(products_[set], from[set].high, (b + low).bits());
          Product::multiply(products_[set], from[set].high, b.bits());
        }
      }
      hopper::wgmma_commit();
      const bool last = ++of_block == block_steps;
      b = b + (last ? next_block : kStepUnits);
      if (last) of_block = 0;
    };
    if constexpr (kTerms > 1) {
#pragma unroll
      for (int set = 0; set < kActiveSets; ++set) {
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i) products_[set][i] = 0;
      }
    }
    fetch(1);
    convert(a[0]);
    // Steps are two and two, and the loop has one way out: the compiler would wait for each product otherwise.
    int32_t step = 1;
#pragma unroll 1
    do {
      fetch(step + 1);
      issue(a[0]);
      hopper::wgmma_wait<kBuffers - 1>();  // the products of the words that come next are done
      convert(a[kBuffers - 1]);
      fetch(step + 2);  // past the end for nobody
      issue(a[kBuffers - 1]);
      hopper::wgmma_wait<kBuffers - 1>();
      convert(a[0]);
      step += 2;
    } while (step < plan.steps);
    hopper::wgmma_wait<0>();
    fence();
    if constexpr (kTerms > 1) {
#pragma unroll
      for (int set = 0; set < kActiveSets; ++set) {
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i) c_[set][i] += products_[set][i];
      }
    }
  }

  // A set's sums; `first`, `second`: this thread's rows of it exist.
  __device__ __forceinline__ void store(int set, float* to, int32_t pitch, int32_t columns, bool first, bool second,
                                        bool joins) const {
#pragma unroll
    for (int i = 0; i < kSets; ++i) {
      if (i == set) store_grad_sums<kColumns>(c_[i], to, pitch, columns, first, second, joins);
    }
  }

  // The sum of the bias's rows, of this thread's first or second channel; the same in four lanes.
  __device__ __forceinline__ float bias(int half) const {
    float sum = bias_[half];
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    return sum + __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
  }

 private:
  using Product = hopper::WgmmaOfRegisters<kColumns>;
  static constexpr uint32_t kStepUnits = kWgmmaTurnedStep * sizeof(float) / 16;

  // A group's words of a step. Of a tap by itself a thread has two rows that the table names; of neighbouring taps the
  // second is the one after the first, and each further tap's rows begin one later.
  __device__ __forceinline__ void fetch_group(const TurnedGradOperands<kGroups>& of, int group, uint32_t tile,
                                              uint32_t entry, float (&values)[kWidths + 1][2]) {
#pragma unroll
    for (int i = 0; i <= kWidths; ++i) {
      const uint32_t named = kWidths == 1 && i == 1 ? entry >> 16 : entry;
      const uint32_t row = (named & kWgmmaTurnedRow) + static_cast<uint32_t>(of.shift[group]) + (kWidths > 1 ? i : 0);
      const uint32_t at = tile + row * kWgmmaGradRowBytes + (of.channel ^ (row % 8 << 4));
      values[i][0] = __uint_as_float(hopper::load_shared<uint32_t>(at));
      values[i][1] = __uint_as_float(hopper::load_shared<uint32_t>(at ^ 32));  // eight channels further
    }
  }

  // ... as the products take them.
  __device__ __forceinline__ void convert_group(const TurnedGradOperands<kGroups>& of, int group, uint32_t entry,
                                                const float (&values)[kWidths + 1][2], TurnedGradFragment<kTerms>* to) {
    constexpr int kRows = kWidths + 1;
#pragma unroll
    for (int width = 0; width < kWidths; ++width) {
      if ((of.bias_sets >> (group * kWidths + width) & 1) == 0) continue;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if ((entry >> 16 * i & kWgmmaTurnedMissing) != 0) continue;
        bias_[0] += values[width + i][0];
        bias_[1] += values[width + i][1];
      }
    }
    TwoTerms terms[kRows][2];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if constexpr (kTerms == 1) {
          terms[i][half].high = word_of_tf32(__float_as_uint(values[i][half]));
        } else {
          terms[i][half] = two_terms(values[i][half]);
        }
      }
    }
#pragma unroll
    for (int width = 0; width < kWidths; ++width) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        to[width].high[i] = terms[width + i / 2][i % 2].high;
        if constexpr (kTerms > 1) to[width].low[i] = terms[width + i / 2][i % 2].low;
      }
    }
  }

  __device__ __forceinline__ void fence() {
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) {
        hopper::fence_register(c_[set][i]);
        if constexpr (kTerms > 1) hopper::fence_register(products_[set][i]);
      }
    }
  }

  float c_[kSets][kColumns / 2];
  float products_[kTerms == 1 ? 1 : kSets][kTerms == 1 ? 1 : kColumns / 2];  // of a box
  float bias_[2];
};

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
      of_part[i] = group % count + (i == 2 && !alone ? width : 0);
      group /= count;
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
  if (threadIdx.x == 0) {
    for (int i = 0; i < kWgmmaGradMostStages; ++i) {
      hopper::barrier_init(&shared.barriers->full[i], 1);
      hopper::barrier_init(&shared.barriers->turned[i], kWgmmaTurners);
      hopper::barrier_init(&shared.barriers->empty[i], kWgmmaGradWarps);
    }
    hopper::barrier_init_fence();
  }
  for (int i = static_cast<int>(threadIdx.x); i < 4 * (plan.steps + kWgmmaTurnedStepsAhead); i += kWgmmaGradThreads) {
    const int32_t step = i / 4;  // some more than there are, without positions
    uint32_t entry = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t position = step % plan.block_steps() * kWgmmaTurnedStep + plan.row_of_k(i % 4 + 4 * half);
      const bool exists = step < plan.steps && position < plan.block_positions();
      // Zeros of the input meet a row that counts for all taps anyway.
      const int32_t row = exists ? plan.turned_row(step / plan.block_steps(), position) : 0;
      entry |= (static_cast<uint32_t>(row) | (exists ? 0 : kWgmmaTurnedMissing)) << 16 * half;
    }
    shared.rows[i] = entry;
  }
  __syncthreads();
  const int warp = hopper::warp_index();
  if (warp >= kWgmmaGradWarps) {
    hopper::give_registers<kWgmmaTurnedOtherRegisters>();
    if (warp > kWgmmaGradWarps) {
      turn_boxes<kTerms>(plan, shared, work, warp - kWgmmaGradWarps - 1);
    } else if (threadIdx.x == 32 * kWgmmaGradWarps) {
      if (!plan.beside) wait_for_kernel_before();
      load_grad_boxes<WgmmaGradForm::kTurned>(params, shared, work);
      if (plan.beside) wait_for_kernel_before();  // which ends first, as what follows waits for this kernel alone
    }
  } else {
    hopper::take_registers<kWgmmaTurnedRegisters>();
    multiply_turned_boxes<kColumns, kSets, kWidths, kTerms>(params, shared, work);
  }
#endif
}

}  // namespace convt3d
