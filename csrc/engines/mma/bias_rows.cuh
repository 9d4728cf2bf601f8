// The bias's gradient beside the weight's: the loading warps sum rows (tap, output channel) of the staged tiles of
// grad_output, those whose taps reach each position of the output once (bias_taps.h), while others multiply them.
#pragma once

#include "device/ptx/mma.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/ptx/thread_barrier.cuh"
#include "device/ptx/threads.cuh"
#include "engines/mma/weight_grad_params.cuh"
#include "engines/mma/weight_grad_rows.cuh"
#include "engines/mma/weight_grad_tables.cuh"

namespace convt3d::mma {

// The barrier of the warps that fill the tables, and of those that sum rows.
constexpr int kBiasTables = 4;
constexpr int kBiasTablesThreads = 32 * (kGradWarps + kLoadingWarps);

// A fragment's rows are one warp's, box after box. Of 16 bits the tensor cores sum a box, as products with ones; these
// sums and float32 itself are added in float32, and in the end in float64: over taps here, over splits by who adds the
// weight's. In shared memory, float32: [group][eight][row].
template <typename T>
class BiasRows {
 public:
  // `thread`: of the loading ones.
  __device__ __forceinline__ BiasRows(const WeightGradParams<T>& params, const GradTile& tile, unsigned char* shared,
                                      int32_t thread)
      : params_(params), tile_(tile), shared_(shared), thread_(thread) {}

  // Blocks beside each other along the input channels have the same rows: the first one sums them.
  __device__ __forceinline__ static bool wanted(const WeightGradParams<T>& params, const GradTile& tile) {
    return params.bias != nullptr && tile.n_first == 0;
  }

  // Before the loading threads meet.
  __device__ __forceinline__ void clear() const {
    const int32_t count = params_.warps_groups * eights() * 8;
    for (int32_t i = thread_; i < count; i += kLoadingThreads) sums()[i] = 0;
  }

  // A box that has arrived, whose tile of grad_output is at `grad`. Two fragments at a time.
  __device__ __forceinline__ void add(uint32_t grad) const {
    const int32_t fragments = (eights() + 1) / 2;
    int32_t before = -1;
    for (int32_t f = thread_ / 32; f < params_.warps_groups * fragments; f += kLoadingWarps) {
      const Fragment fragment = fragment_of(f);
      if (!fragment.eight[0].of_bias && !fragment.eight[fragment.last].of_bias) continue;
      if (before < 0) {
        before = f;
        continue;
      }
      add_two(grad, before, f);
      before = -1;
    }
    if (before >= 0) add_two(grad, before, before);
  }

  // Of the block's split and part of the taps, when all have added theirs.
  __device__ __forceinline__ void store() const {
    const int32_t count = eights();
    const int32_t channels = min(params_.row_chunk, params_.row_channels - tile_.row_first);
    const int32_t part = (tile_.part[0] * static_cast<int32_t>(params_.parts[1].value) + tile_.part[1]) *
                             static_cast<int32_t>(params_.parts[2].value) +
                         tile_.part[2];
    const int64_t parts = int64_t{params_.parts[0].value} * params_.parts[1].value * params_.parts[2].value;
    for (int32_t g = 0; g < params_.warps_groups; ++g) {
      float* const to = params_.bias +
                        ((tile_.split * parts + part) * params_.groups + tile_.group + g) * params_.row_channels +
                        tile_.row_first;
      for (int32_t channel = thread_; channel < channels; channel += kLoadingThreads) {
        const int32_t row = channel % 8;
        double sum = params_.joins ? to[channel] : 0;
        for (int32_t i = 0; i < count; ++i) {
          const GradEight& eight = eights_at()[i];
          if (eight.of_bias && eight.row % params_.row_channels == channel - row)
            sum += sums()[(g * count + i) * 8 + row];
        }
        to[channel] = static_cast<float>(sum);
      }
    }
  }

 private:
  __device__ __forceinline__ int32_t eights() const { return tile_.eights(params_); }
  __device__ __forceinline__ const GradEight* eights_at() const {
    return reinterpret_cast<const GradEight*>(shared_ + params_.layout.eights);
  }
  __device__ __forceinline__ float* sums() const { return reinterpret_cast<float*>(shared_ + params_.layout.bias); }

  struct Fragment {
    const GradEight* eight;
    int32_t last;    // 1, or 0 where there is no second eight
    uint32_t group;  // bytes to its channels
    float* sums;
  };
  __device__ __forceinline__ Fragment fragment_of(int32_t number) const {
    const int32_t count = eights();
    const int32_t fragments = (count + 1) / 2;
    const int32_t group = params_.warps_groups == 1 ? 0 : number / fragments;
    const int32_t first = 2 * (number - group * fragments);
    return {eights_at() + first, min(1, count - 1 - first),
            static_cast<uint32_t>(group * params_.row_channels * params_.source[0].tile.channel_step(sizeof(T))),
            sums() + (group * count + first) * 8};
  }

  // Of two fragments, or of one that is both.
  __device__ __forceinline__ void add_two(uint32_t grad, int32_t first, int32_t second) const {
    const int32_t lane = thread_ % 32;
    PairReads pairs{};
    if constexpr (kIsPaired<T>) pairs = PairReads::of_lane(params_.source[0].tile.column_step, lane);
    FragmentOffsets<T> offset[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Fragment fragment = fragment_of(i == 0 ? first : second);
      offset[i].set(lane, params_.source[0].tile.channel_step(sizeof(T)), pairs,
                    [&](int32_t e) { return fragment.eight[min(e, fragment.last)].grad + fragment.group; });
    }
    float sum[2][4] = {};
    uint32_t places = hopper::shared_address(shared_ + params_.layout.places);
    int32_t left = positions_of_box(params_);
#pragma unroll 1
    for (int32_t step = 0; step < params_.steps; ++step) {
      add_step(places, grad, offset, pairs, left, sum);
      places += kGradStep * uint32_t{sizeof(GradPlace)};
      left -= kGradStep;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (i == 1 && second == first) continue;
      const Fragment fragment = fragment_of(i == 0 ? first : second);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float of_row = sum[i][2 * e];
        if constexpr (kInLanes) {
          of_row += __shfl_xor_sync(0xFFFFFFFF, of_row, 1);
          of_row += __shfl_xor_sync(0xFFFFFFFF, of_row, 2);
        }
        if (lane % 4 == 0 && e <= fragment.last) fragment.sums[e * 8 + lane / 4] += of_row;
      }
    }
  }

  // Sixteen positions, or words of two of them, of which the first `left` exist. What fills up a box's last step reads
  // a position that is there.
  __device__ __forceinline__ void add_step(uint32_t places, uint32_t grad, const FragmentOffsets<T> (&offset)[2],
                                           const PairReads& pairs, int32_t left, float (&sum)[2][4]) const {
    const int32_t lane = thread_ % 32;
    if constexpr (FragmentOffsets<T>::kWords) {
#pragma unroll
      for (int32_t half = 0; half < kGradStep; half += 8) {
        const PlacedWords at(places + static_cast<uint32_t>(half) * uint32_t{sizeof(GradPlace)}, grad, 0, lane);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          uint32_t a[4];
          at.load_rows(offset[i].of, a);
          if constexpr (kIsPaired<T>) pairs.part_taps(a);
          add_words(a, left - half, sum[i]);
        }
      }
    } else {
      const uint32_t row = grad + hopper::load_shared<uint32_t>(places + matrix_places(lane).grad);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        uint32_t a[4];
        load_matrices_transposed<4>(a, row + offset[i].of[0]);
        add_words(a, left, sum[i]);
      }
    }
  }

  static constexpr bool kInLanes = sizeof(ElementOf<T>) == 4;  // else in the tensor cores

  // Words i and i + 2 of `a` are of eight i, the first of them of the lane's first position, or pair of positions.
  // Element 2 * i of the sums is that eight's.
  __device__ __forceinline__ void add_words(uint32_t (&a)[4], int32_t left, float (&sum)[4]) const {
    if (left < kGradStep) keep(a, left);
    if constexpr (kInLanes) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i % 2 * 2] += __uint_as_float(a[i]);
    } else {
      constexpr uint32_t kOnes = std::is_same_v<ElementOf<T>, __half> ? 0x3C003C00 : 0x3F803F80;
      const uint32_t ones[2] = {kOnes, kOnes};
      multiply_add<ElementOf<T>>(sum, a, ones);  // all columns alike
    }
  }
  // Zeros for positions that do not exist.
  __device__ __forceinline__ void keep(uint32_t (&a)[4], int32_t left) const {
    const int32_t lane = thread_ % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t kept = 0;
      if constexpr (FragmentOffsets<T>::kWords) {
        // Of rows of channels neighbours, of channel rows four apart.
        const bool rows = !kIsPaired<T> && !params_.source[0].tile.has_channel_rows();
        const int32_t position = rows ? lane % 4 * 2 + i / 2 : lane % 4 + i / 2 * 4;
        kept = position < left ? 0xFFFFFFFF : 0;
      } else {
        const int32_t position = lane % 4 * 2 + i / 2 * 8;
        kept = (position < left ? 0xFFFF : 0) | (position + 1 < left ? 0xFFFF0000 : 0);
      }
      a[i] &= kept;
    }
  }

  const WeightGradParams<T>& params_;
  const GradTile& tile_;
  unsigned char* shared_;
  int32_t thread_;
};

}  // namespace convt3d::mma
