// The sums of a warpgroup whose operand A comes through registers.
#pragma once

#include "device/hopper.cuh"
#include "device/lanes.cuh"
#include "device/ptx/numeric.cuh"
#include "device/two_terms.cuh"
#include "engines/wgmma/weight_grad/shared.cuh"

namespace convt3d {

// Entries of the table of rows: a row of the tile, and whether there is no such position.
constexpr uint32_t kWgmmaTurnedMissing = 0x8000;
constexpr uint32_t kWgmmaTurnedRow = kWgmmaTurnedMissing - 1;

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
  __device__ __forceinline__ float bias(int half) const { return sum_over_lanes<3>(bias_[half]); }

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

  // What the products take of it.
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

}  // namespace convt3d
