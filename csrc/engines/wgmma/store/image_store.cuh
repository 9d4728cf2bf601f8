// Outputs of images that share a tile, where the width is contiguous: straight from the registers to memory. A fragment
// of a warp's accumulators holds one position of 8 images; the next one mostly holds the neighbour along the width. The
// phases of the width are two accumulator sets or two passes, of which the first keeps its outputs in staging.
#pragma once

#include "device/hopper.cuh"
#include "engines/wgmma/store/target.cuh"

namespace convt3d {

// Where a fragment of 8 columns begins among a thread's accumulators. Past the last one no output has its second half.
template <int kN>
__device__ __forceinline__ constexpr int fragment(int index) {
  return 4 * (index < kN / 8 ? index : 0);
}

// Of one warp and pass.
template <typename T, int kN, int kSets>
class WgmmaImageStore {
 public:
  // `columns`: the warpgroup's table, of pairs; `channels`: of the slab; `images`: of the batch, from the work tile's
  // first on; `kept`: the warp's staging.
  __device__ __forceinline__ WgmmaImageStore(const WgmmaParams<T>& params, const WgmmaTarget<T>& target,
                                             const uint16_t* columns, int channels, int64_t images, T* kept)
      : params_(params),
        target_(target),
        pairs_(reinterpret_cast<const WgmmaStoredPair*>(columns)),
        channels_(channels),
        images_(images),
        kept_(kept),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // `keep`: the pass's is the first of the two phases.
  __device__ __forceinline__ void store(const float (&c)[kSets][kN / 2], bool keep) const {
    if constexpr (kSets == 2) {
      store_pairs<2>(
          [&](int j, int, int k, int i) { return from_accumulator<T>(c[k % 2][fragment<kN>(j + k / 2) + i]); });
    } else if (!params_.plan.store.phase_pairs) {
      store_pairs<1>([&](int j, int, int k, int i) { return from_accumulator<T>(c[0][fragment<kN>(j + k) + i]); });
    } else if (keep) {
      keep_pairs(c[0]);
    } else {
      store_pairs<2>([&](int j, int kept, int k, int i) {
        const T before = kept_pair(kept)[k / 2 * 4 + i];
        return k % 2 == 0 ? before : from_accumulator<T>(c[0][fragment<kN>(j + k / 2) + i]);
      });
    }
  }

 private:
  // A thread's part of two fragments of the pass before: it alone reads what it wrote.
  __device__ __forceinline__ T* kept_pair(int pair) const { return kept_ + pair * kWgmmaKeptElements + lane_ * 8; }
  __device__ __forceinline__ void keep_pairs(const float (&c)[kN / 2]) const {
#pragma unroll
    for (int j = 0; j < kN / 8; ++j) {
      if (pairs_[j].positions == 0) continue;
      alignas(16) T values[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) values[i] = from_accumulator<T>(c[fragment<kN>(j + i / 4) + i % 4]);
      auto* to = reinterpret_cast<uint4*>(kept_pair(pairs_[j].kept));
#pragma unroll
      for (int i = 0; i < static_cast<int>(sizeof(values) / 16); ++i) to[i] = reinterpret_cast<const uint4*>(values)[i];
    }
  }

  // Two neighbours along the width with kPhases outputs each. `value`: of the pair, by its first fragment and its
  // number among those that are kept, the k-th neighbour's i-th: of the first and the ninth channel those of two
  // images.
  template <int kPhases, typename Value>
  __device__ __forceinline__ void store_pairs(Value&& value) const {
    constexpr int kNeighbours = 2 * kPhases;
    const Strides& stride = params_.destination_stride;
    const int64_t images = images_ - lane_ % 4 * 2;  // from the thread's first on
    const int channels = channels_ - lane_ / 4;
    T* destination = target_.destination + lane_ / 4 * stride.c + lane_ % 4 * 2 * stride.n;
    const int64_t steps = static_cast<int64_t>(reinterpret_cast<uintptr_t>(target_.destination) / sizeof(T)) |
                          stride.c | stride.n | stride.d | stride.h;
    const bool aligned = steps % kNeighbours == 0;
#pragma unroll
    for (int j = 0; j < kN / 8; ++j) {
      const WgmmaStoredPair at = pairs_[j];
      const int outputs = min(at.positions * kPhases, target_.left[2] - at.w * kPhases);
      if (at.d >= target_.left[0] || at.h >= target_.left[1] || outputs <= 0) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i / 2 * 8 >= channels || i % 2 >= images) continue;
        alignas(16) T neighbours[kNeighbours];
#pragma unroll
        for (int k = 0; k < kNeighbours; ++k) neighbours[k] = value(j, at.kept, k, i);
        T* first = destination + at.offset + i / 2 * 8 * stride.c + i % 2 * stride.n;
        if (aligned && outputs == kNeighbours) {
          hopper::store_global(first, neighbours);
        } else {
#pragma unroll
          for (int k = 0; k < kNeighbours; ++k) {
            if (k < outputs) first[k] = neighbours[k];
          }
        }
      }
    }
  }

  const WgmmaParams<T>& params_;
  WgmmaTarget<T> target_;
  const WgmmaStoredPair* pairs_;
  int channels_;
  int64_t images_;
  T* kept_;
  int lane_;
};

}  // namespace convt3d
