// The bias's gradient beside the weight's: the loading warps sum rows (tap, output channel) of the staged tiles of
// grad_output, those whose taps reach each position of the output once (bias_taps.h), while others multiply them.
#pragma once

#include "device/lanes.cuh"
#include "device/ptx/mma.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/ptx/thread_barrier.cuh"
#include "device/ptx/threads.cuh"
#include "engines/mma/weight_grad/params.cuh"
#include "engines/mma/weight_grad/rows.cuh"
#include "engines/mma/weight_grad/tables.cuh"

namespace convt3d::mma {

// The named barrier where the warps that fill the tables meet those that sum rows.
constexpr int kBiasTables = 4;

// Blocks beside each other along the input channels have the same rows: the first one sums them.
template <typename T>
__device__ __forceinline__ bool sums_bias(const WeightGradParams<T>& params, const GradTile& tile) {
  return params.bias != nullptr && tile.n_first == 0;
}

// A warp sums rows of a few fragments at once, of some steps of a box, box after box. Of 16 bits the tensor cores do,
// as products with ones; these sums and float32 itself are added in float32, and in the end in float64: over taps here,
// over splits by who adds the weight's. In shared memory, float32: sums of each warp's, [unit][fragment][row], and of
// all, [group][eight][row].
template <typename T>
class BiasRows {
 public:
  // `thread`: number among the loading threads.
  __device__ __forceinline__ BiasRows(const WeightGradParams<T>& params, const GradTile& tile, unsigned char* shared,
                                      int32_t thread)
      : params_(params), tile_(tile), shared_(shared), thread_(thread) {}

  // Clears the sums of all units; then the loading threads meet.
  __device__ __forceinline__ void clear() const {
    const int32_t eights = tile_.eights(params_);
    if (thread_ == 0) *reinterpret_cast<int32_t*>(shared_ + params_.layout.bias_fragments) = eights;
    const int32_t count = kBiasUnitSums * most_bias_units(params_.warps_groups * ((eights + 1) / 2));
    for (int32_t i = thread_; i < count; i += kLoadingThreads) unit_sums()[i] = 0;
  }

  // Lists the fragments whose rows the bias has, when the tables are filled; then the loading threads meet.
  __device__ __forceinline__ void begin() {
    const int32_t fragments = params_.warps_groups * ((eights() + 1) / 2);
    const int32_t lane = thread_ % 32;
    fragments_ = 0;
    for (int32_t first = 0; first < fragments; first += 32) {
      const FragmentIndex index = index_of(first + lane);
      bool counts = false;
      if (first + lane < fragments) {
        const Fragment fragment = fragment_at(index);
        counts = fragment.eight[0].bias_channel >= 0 || fragment.eight[fragment.last].bias_channel >= 0;
      }
      const uint32_t all = __ballot_sync(0xFFFFFFFF, counts);
      if (counts && thread_ < 32) counted()[fragments_ + __popc(all & ((1u << lane) - 1))] = index;
      fragments_ += __popc(all);
    }
  }

  // Adds the rows of a box that has arrived, whose tile of grad_output is at `grad`.
  __device__ __forceinline__ void add(uint32_t grad) const {
    for (int32_t unit = thread_ / 32; unit < bias_units(fragments_); unit += kLoadingWarps) add_unit(grad, unit);
  }

  // Adds the sums of all slices in order, when all warps have added their boxes; then the loading threads meet.
  __device__ __forceinline__ void gather() const {
    const int32_t slices = bias_slices(fragments_);
    for (int32_t i = thread_; i < fragments_ * 16; i += kLoadingThreads) {
      const int32_t number = i / 16;
      const Fragment fragment = fragment_at(counted()[number]);
      const float* const from =
          unit_sums() + number / kBiasRows * slices * kBiasUnitSums + number % kBiasRows * 16 + i % 16;
      float sum = 0;
      for (int32_t slice = 0; slice < slices; ++slice) sum += from[slice * kBiasUnitSums];
      if (i % 16 / 8 <= fragment.last) fragment.sums[i % 16] = sum;
    }
  }

  // Stores the partial sums of the block's split and part of the taps.
  __device__ __forceinline__ void store() const {
    const GradTile tile = tile_here(params_);
    const int32_t count = tile.eights(params_);
    const int32_t channels = min(params_.row_chunk, params_.row_channels - tile.row_first);
    const int32_t part = (tile.part[0] * static_cast<int32_t>(params_.parts[1].value) + tile.part[1]) *
                             static_cast<int32_t>(params_.parts[2].value) +
                         tile.part[2];
    const int64_t parts = int64_t{params_.parts[0].value} * params_.parts[1].value * params_.parts[2].value;
    for (int32_t g = 0; g < params_.warps_groups; ++g) {
      float* const to = params_.bias +
                        ((tile.split * parts + part) * params_.groups + tile.group + g) * params_.row_channels +
                        tile.row_first;
      for (int32_t channel = thread_; channel < channels; channel += kLoadingThreads) {
        const int32_t row = channel % 8;
        double sum = params_.joins ? to[channel] : 0;
        // The channel's eights of all taps and, of width pairs, of both halves of words.
        const int32_t of_tap = params_.row_chunk / 8 * kHalves;
        for (int32_t i = channel / 8 * kHalves; i < count; i += of_tap) {
#pragma unroll
          for (int32_t half = 0; half < kHalves; ++half) {
            if (eights_at()[i + half].bias_channel == channel - row) sum += sums()[(g * count + i + half) * 8 + row];
          }
        }
        to[channel] = static_cast<float>(sum);
      }
    }
  }

 private:
  static constexpr int kHalves = kIsPaired<T> ? 2 : 1;
  static constexpr bool kInLanes = sizeof(ElementOf<T>) == 4;  // else in the tensor cores

  // Eights of a group of the block.
  __device__ __forceinline__ int32_t eights() const {
    return *reinterpret_cast<const int32_t*>(shared_ + params_.layout.bias_fragments);
  }
  __device__ __forceinline__ const GradEight* eights_at() const {
    return reinterpret_cast<const GradEight*>(shared_ + params_.layout.eights);
  }
  __device__ __forceinline__ float* sums() const { return reinterpret_cast<float*>(shared_ + params_.layout.bias); }
  // Where a fragment is: the number of its group among the block's, and its first eight.
  struct FragmentIndex {
    int16_t group;
    int16_t first;
  };
  static_assert(sizeof(FragmentIndex) == kBiasFragmentBytes);
  __device__ __forceinline__ FragmentIndex index_of(int32_t number) const {
    const int32_t fragments = (eights() + 1) / 2;
    const int32_t group = small_quotient(number, fragments);
    return {static_cast<int16_t>(group), static_cast<int16_t>(2 * (number - group * fragments))};
  }
  __device__ __forceinline__ FragmentIndex* counted() const {
    return reinterpret_cast<FragmentIndex*>(shared_ + params_.layout.bias_fragments) + 1;
  }

  __device__ __forceinline__ float* unit_sums() const {
    return reinterpret_cast<float*>(shared_ + params_.layout.bias_units);
  }

  struct Fragment {
    const GradEight* eight;
    int32_t last;    // 1, or 0 where there is no second eight
    uint32_t group;  // bytes from the first group's channels to its group's
    float* sums;
  };
  __device__ __forceinline__ Fragment fragment_at(const FragmentIndex& index) const {
    const int32_t count = eights();
    return {eights_at() + index.first, min(1, count - 1 - index.first),
            static_cast<uint32_t>(index.group * params_.row_channels * params_.source[0].tile.channel_step(sizeof(T))),
            sums() + (index.group * count + index.first) * 8};
  }

  // Adds a unit's fragments of one box; past the last fragment it has that one again.
  __device__ __forceinline__ void add_unit(uint32_t grad, int32_t unit) const {
    const int32_t lane = thread_ % 32;
    const int32_t slices = bias_slices(fragments_);
    int32_t rows = unit;
    const int32_t slice = take_small(rows, slices);
    const int32_t first = rows * kBiasRows;
    PairReads pairs{};
    if constexpr (kIsPaired<T>) pairs = PairReads::of_lane(params_.source[0].tile.column_step, lane);
    FragmentOffsets<T> offset[kBiasRows];
#pragma unroll
    for (int i = 0; i < kBiasRows; ++i) {
      const Fragment fragment = fragment_at(counted()[min(first + i, fragments_ - 1)]);
      offset[i].set(lane, params_.source[0].tile.channel_step(sizeof(T)), pairs,
                    [&](int32_t e) { return fragment.eight[min(e, fragment.last)].grad + fragment.group; });
    }
    float sum[kBiasRows][4] = {};
    constexpr uint32_t kStepEntries = kGradStep * uint32_t{sizeof(PositionEntry)};
    uint32_t entries =
        hopper::shared_address(shared_ + params_.layout.positions) + static_cast<uint32_t>(slice) * kStepEntries;
    int32_t left = positions_of_box(params_) - slice * kGradStep;
#pragma unroll 1
    for (; left >= kGradStep; left -= slices * kGradStep) {
      add_step<true>(entries, grad, offset, pairs, left, sum);
      entries += static_cast<uint32_t>(slices) * kStepEntries;
    }
    if (left > 0) add_step<false>(entries, grad, offset, pairs, left, sum);
    float* const to = unit_sums() + unit * kBiasUnitSums + lane / 4;
#pragma unroll
    for (int i = 0; i < kBiasRows; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float of_row = sum[i][2 * e];
        if constexpr (kInLanes) of_row = sum_over_lanes<3>(of_row);
        if (lane % 4 == 0) to[i * 16 + e * 8] += of_row;
      }
    }
  }

  // Adds a step: sixteen positions, or sixteen words of two. All of them count (kWhole), or the first `left`: what
  // fills up a box's last step reads a position that is there.
  template <bool kWhole>
  __device__ __forceinline__ void add_step(uint32_t entries, uint32_t grad,
                                           const FragmentOffsets<T> (&offset)[kBiasRows], const PairReads& pairs,
                                           int32_t left, float (&sum)[kBiasRows][4]) const {
    const int32_t lane = thread_ % 32;
    if constexpr (FragmentOffsets<T>::kWords) {
#pragma unroll 1
      for (int32_t half = 0; half < kGradStep; half += 8) {
        const PositionWords at(entries + static_cast<uint32_t>(half) * uint32_t{sizeof(PositionEntry)}, grad, 0, lane);
        uint32_t a[kBiasRows][4];
#pragma unroll
        for (int i = 0; i < kBiasRows; ++i) at.load_rows(offset[i].of, a[i]);
#pragma unroll
        for (int i = 0; i < kBiasRows; ++i) {
          if constexpr (kIsPaired<T>) pairs.part_taps(a[i]);
        }
        if constexpr (!kWhole) keep(a, left - half);
        add_words(a, sum);
      }
    } else {
      const uint32_t row = grad + hopper::load_shared<uint32_t>(entries + matrix_entries(lane).grad);
      uint32_t a[kBiasRows][4];
#pragma unroll
      for (int i = 0; i < kBiasRows; ++i) load_matrices_transposed<4>(a[i], row + offset[i].of[0]);
      if constexpr (!kWhole) keep(a, left);
      add_words(a, sum);
    }
  }

  // Keeps the words of the first `left` positions and makes the others zero. A lane's words 2 and 3 of a fragment are
  // of other positions than its words 0 and 1.
  __device__ __forceinline__ void keep(uint32_t (&a)[kBiasRows][4], int32_t left) const {
    const int32_t lane = thread_ % 32;
    uint32_t kept[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (FragmentOffsets<T>::kWords) {
        // A lane's two positions are neighbours in rows of channels, and four apart in channel rows.
        const bool rows = !kIsPaired<T> && !params_.source[0].tile.has_channel_rows();
        const int32_t position = rows ? lane % 4 * 2 + i : lane % 4 + i * 4;
        kept[i] = position < left ? 0xFFFFFFFF : 0;
      } else {
        const int32_t position = lane % 4 * 2 + i * 8;
        kept[i] = (position < left ? 0xFFFF : 0) | (position + 1 < left ? 0xFFFF0000 : 0);
      }
    }
#pragma unroll
    for (int f = 0; f < kBiasRows; ++f) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[f][i] &= kept[i / 2];
    }
  }

  // Words i and i + 2 of a fragment are of its eight i, whose sum is element 2 * i.
  __device__ __forceinline__ void add_words(const uint32_t (&a)[kBiasRows][4], float (&sum)[kBiasRows][4]) const {
#pragma unroll
    for (int f = 0; f < kBiasRows; ++f) {
      if constexpr (kInLanes) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[f][i % 2 * 2] += __uint_as_float(a[f][i]);
      } else {
        constexpr uint32_t kOnes = std::is_same_v<ElementOf<T>, __half> ? 0x3C003C00 : 0x3F803F80;
        const uint32_t ones[2] = {kOnes, kOnes};
        multiply_add<ElementOf<T>>(sum[f], a[f], ones);  // all columns are the same
      }
    }
  }

  const WeightGradParams<T>& params_;
  const GradTile& tile_;
  unsigned char* shared_;
  int32_t thread_;
  int32_t fragments_ = 0;  // fragments whose rows the bias has
};

}  // namespace convt3d::mma
