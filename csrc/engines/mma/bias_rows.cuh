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

// Blocks beside each other along the input channels have the same rows: the first one sums them.
template <typename T>
__device__ __forceinline__ bool sums_bias(const WeightGradParams<T>& params, const GradTile& tile) {
  return params.bias != nullptr && tile.n_first == 0;
}

// A fragment's rows are one warp's, box after box. Of 16 bits the tensor cores sum a box, as products with ones; these
// sums and float32 itself are added in float32, and in the end in float64: over taps here, over splits by who adds the
// weight's. In shared memory: float32 [group][eight][row], and the fragments that each warp has.
// kAtOnce: fragments, as registers allow.
template <typename T, int kAtOnce>
class BiasRows {
 public:
  // `thread`: of the loading ones.
  __device__ __forceinline__ BiasRows(const WeightGradParams<T>& params, const GradTile& tile, unsigned char* shared,
                                      int32_t thread)
      : params_(params), tile_(tile), shared_(shared), thread_(thread) {}

  // Before the loading threads meet.
  __device__ __forceinline__ void clear() const {
    const int32_t eights = tile_.eights(params_);
    if (thread_ == 0) *reinterpret_cast<int32_t*>(shared_ + params_.layout.bias_fragments) = eights;
    const int32_t count = params_.warps_groups * eights * 8;
    for (int32_t i = thread_; i < count; i += kLoadingThreads) sums()[i] = 0;
  }

  // When the tables are there, before the first box. Fragments that count are dealt out to the warps.
  __device__ __forceinline__ void begin() {
    const int32_t fragments = params_.warps_groups * ((eights() + 1) / 2);
    const int32_t lane = thread_ % 32;
    const int32_t warp = thread_ / 32;
    int32_t before = 0;
    for (int32_t first = 0; first < fragments; first += 32) {
      const FragmentPlace place = place_of(first + lane);
      bool counts = false;
      if (first + lane < fragments) {
        const Fragment fragment = fragment_at(place);
        counts = fragment.eight[0].bias_channel >= 0 || fragment.eight[fragment.last].bias_channel >= 0;
      }
      const uint32_t all = __ballot_sync(0xFFFFFFFF, counts);
      const int32_t number = before + __popc(all & ((1u << lane) - 1));
      if (counts && number % kLoadingWarps == warp) mine()[number / kLoadingWarps] = place;
      before += __popc(all);
    }
    count_ = (before - warp + kLoadingWarps - 1) / kLoadingWarps;
    __syncwarp();
  }

  // A box that has arrived, whose tile of grad_output is at `grad`.
  __device__ __forceinline__ void add(uint32_t grad) const {
    for (int32_t i = 0; i < count_; i += kAtOnce) add_some(grad, i);
  }

  // Of the block's split and part of the taps, when all have added theirs.
  __device__ __forceinline__ void store() const {
    const GradTile tile = tile_here();
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
        // Its eights of all taps, and of both halves of words.
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

  // Nothing of it is kept while boxes are loaded: no registers are left in the kernel of all gradients.
  __device__ __forceinline__ GradTile tile_here() const {
    return {params_, static_cast<uint32_t>(hopper::computed_here(static_cast<int>(blockIdx.x)))};
  }
  // Of a group.
  __device__ __forceinline__ int32_t eights() const {
    return *reinterpret_cast<const int32_t*>(shared_ + params_.layout.bias_fragments);
  }
  __device__ __forceinline__ const GradEight* eights_at() const {
    return reinterpret_cast<const GradEight*>(shared_ + params_.layout.eights);
  }
  __device__ __forceinline__ float* sums() const { return reinterpret_cast<float*>(shared_ + params_.layout.bias); }
  // A fragment's group, of the block's, and its first eight.
  struct FragmentPlace {
    int16_t group;
    int16_t first;
  };
  static_assert(sizeof(FragmentPlace) == kBiasFragmentBytes);
  __device__ __forceinline__ FragmentPlace place_of(int32_t number) const {
    const int32_t fragments = (eights() + 1) / 2;
    const int32_t group = number / fragments;
    return {static_cast<int16_t>(group), static_cast<int16_t>(2 * (number - group * fragments))};
  }
  // Those of the warp: every fourth of those that count.
  __device__ __forceinline__ FragmentPlace* mine() const {
    const int32_t all = params_.warps_groups * ((eights() + 1) / 2);
    return reinterpret_cast<FragmentPlace*>(shared_ + params_.layout.bias_fragments) + 1 +
           thread_ / 32 * ((all + kLoadingWarps - 1) / kLoadingWarps);
  }

  struct Fragment {
    const GradEight* eight;
    int32_t last;    // 1, or 0 where there is no second eight
    uint32_t group;  // bytes to its channels
    float* sums;
  };
  __device__ __forceinline__ Fragment fragment_at(const FragmentPlace& place) const {
    const int32_t count = eights();
    return {eights_at() + place.first, min(1, count - 1 - place.first),
            static_cast<uint32_t>(place.group * params_.row_channels * params_.source[0].tile.channel_step(sizeof(T))),
            sums() + (place.group * count + place.first) * 8};
  }

  // The warp's fragments from number `first` on, of which the last one may stand for those that it does not have.
  __device__ __forceinline__ void add_some(uint32_t grad, int32_t first) const {
    const int32_t lane = thread_ % 32;
    PairReads pairs{};
    if constexpr (kIsPaired<T>) pairs = PairReads::of_lane(params_.source[0].tile.column_step, lane);
    FragmentOffsets<T> offset[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const Fragment fragment = fragment_at(mine()[min(first + i, count_ - 1)]);
      offset[i].set(lane, params_.source[0].tile.channel_step(sizeof(T)), pairs,
                    [&](int32_t e) { return fragment.eight[min(e, fragment.last)].grad + fragment.group; });
    }
    float sum[kAtOnce][4] = {};
    uint32_t places = hopper::shared_address(shared_ + params_.layout.places);
    int32_t left = positions_of_box(params_);
#pragma unroll 1
    for (; left >= kGradStep; left -= kGradStep) {
      add_step<true>(places, grad, offset, pairs, left, sum);
      places += kGradStep * uint32_t{sizeof(GradPlace)};
    }
    if (left > 0) add_step<false>(places, grad, offset, pairs, left, sum);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i >= count_) break;
      const Fragment fragment = fragment_at(mine()[first + i]);
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

  // Sixteen positions, or words of two of them: kWhole, or the first `left`. What fills up a box's last step reads a
  // position that is there.
  template <bool kWhole>
  __device__ __forceinline__ void add_step(uint32_t places, uint32_t grad, const FragmentOffsets<T> (&offset)[kAtOnce],
                                           const PairReads& pairs, int32_t left, float (&sum)[kAtOnce][4]) const {
    const int32_t lane = thread_ % 32;
    if constexpr (FragmentOffsets<T>::kWords) {
#pragma unroll 1
      for (int32_t half = 0; half < kGradStep; half += 8) {
        const PlacedWords at(places + static_cast<uint32_t>(half) * uint32_t{sizeof(GradPlace)}, grad, 0, lane);
        uint32_t a[kAtOnce][4];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) at.load_rows(offset[i].of, a[i]);
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if constexpr (kIsPaired<T>) pairs.part_taps(a[i]);
        }
        if constexpr (!kWhole) keep(a, left - half);
        add_words(a, sum);
      }
    } else {
      const uint32_t row = grad + hopper::load_shared<uint32_t>(places + matrix_places(lane).grad);
      uint32_t a[kAtOnce][4];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) load_matrices_transposed<4>(a[i], row + offset[i].of[0]);
      if constexpr (!kWhole) keep(a, left);
      add_words(a, sum);
    }
  }

  // Of the first `left` positions; zeros for the others. A lane's words 2 and 3 of a fragment are of other positions
  // than its words 0 and 1.
  __device__ __forceinline__ void keep(uint32_t (&a)[kAtOnce][4], int32_t left) const {
    const int32_t lane = thread_ % 32;
    uint32_t kept[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (FragmentOffsets<T>::kWords) {
        // Of rows of channels neighbours, of channel rows four apart.
        const bool rows = !kIsPaired<T> && !params_.source[0].tile.has_channel_rows();
        const int32_t position = rows ? lane % 4 * 2 + i : lane % 4 + i * 4;
        kept[i] = position < left ? 0xFFFFFFFF : 0;
      } else {
        const int32_t position = lane % 4 * 2 + i * 8;
        kept[i] = (position < left ? 0xFFFF : 0) | (position + 1 < left ? 0xFFFF0000 : 0);
      }
    }
#pragma unroll
    for (int f = 0; f < kAtOnce; ++f) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[f][i] &= kept[i / 2];
    }
  }

  // Words i and i + 2 of a fragment are of its eight i, whose sum is element 2 * i.
  __device__ __forceinline__ void add_words(const uint32_t (&a)[kAtOnce][4], float (&sum)[kAtOnce][4]) const {
#pragma unroll
    for (int f = 0; f < kAtOnce; ++f) {
      if constexpr (kInLanes) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[f][i % 2 * 2] += __uint_as_float(a[f][i]);
      } else {
        constexpr uint32_t kOnes = std::is_same_v<ElementOf<T>, __half> ? 0x3C003C00 : 0x3F803F80;
        const uint32_t ones[2] = {kOnes, kOnes};
        multiply_add<ElementOf<T>>(sum[f], a[f], ones);  // all columns alike
      }
    }
  }

  const WeightGradParams<T>& params_;
  const GradTile& tile_;
  unsigned char* shared_;
  int32_t thread_;
  int32_t count_ = 0;  // of the warp's fragments
};

}  // namespace convt3d::mma
