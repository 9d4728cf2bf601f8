// From rows in shared memory, as matrices or elements left them there, to memory.
#pragma once

#include <type_traits>

#include "device/ptx/global_memory.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/small_quotient.h"
#include "device/words.cuh"
#include "engines/mma/correlation/params.cuh"

namespace convt3d::mma {

// Of numbers that are not below zero.
__device__ __forceinline__ int64_t wide_product(int32_t a, int32_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint32_t>(a)) * static_cast<uint32_t>(b));
}

// `kM`: positions that a residue has room for, where rows are matrices.
template <typename T, int kM, int kThreads>
class StagedRows {
 public:
  // `offsets`: of each row of the box, from where the destination begins; negative where there is none.
  __device__ __forceinline__ StagedRows(const StoreParams<T>& params, const BlockShare& share, const int64_t* offsets,
                                        const unsigned char* staging, int32_t thread)
      : params_(params), share_(share), offsets_(offsets), staging_(staging), thread_(thread) {}

  __device__ __forceinline__ void operator()(const BlockBox& box, const Residue& residue) const {
    switch (params_.row_vector * static_cast<int>(sizeof(T))) {
      case 16:
        return store_by<16 / sizeof(T)>(box, residue);
      case 8:
        return store_by<8 / sizeof(T)>(box, residue);
      case 4:
        return store_by<4 / sizeof(T)>(box, residue);
      default:
        return store_by<1>(box, residue);
    }
  }

 private:
  template <int kVector>
  __device__ __forceinline__ void store_by(const BlockBox& box, const Residue& residue) const {
    const int32_t places = params_.box_rows.count * static_cast<int32_t>(params_.row_vectors.value);
    // A thread keeps a place and walks channels or, where these are neighbours, has one item after another.
    const auto at_once = static_cast<int32_t>(params_.places_at_once.value);
    const int32_t groups = params_.places_at_once.quotient(kThreads);
    int32_t group = thread_;
    int32_t item = params_.places_at_once.take(group);
    int32_t end = group < groups ? places : 0;
    if (params_.channels_first) {
      item = thread_;
      end = share_.channels * places;
    }
    const int32_t step = params_.channels_first ? share_.channels : groups;
#pragma unroll 1
    for (; item < end; item += params_.channels_first ? kThreads : at_once) {
      const int32_t place = params_.channels_first ? small_quotient(item, share_.channels) : item;
      const int32_t n = params_.channels_first ? item - place * share_.channels : group;
      if constexpr (sizeof(T) == 2) {
        if (interleaves()) {
          store_place<kVector, true>(box, residue, place, n, step);
          continue;
        }
      }
      store_place<kVector, false>(box, residue, place, n, step);
    }
  }

  // Rows are put together of two residues' matrices where they are stored.
  __device__ __forceinline__ bool interleaves() const {
    return params_.stages_matrices && params_.joins_width && params_.residues[2] == 2;
  }

  // Neighbours of a row, of the channels `n`, `n` + `step` and so on.
  template <int kVector, bool kInterleaves>
  __device__ __forceinline__ void store_place(const BlockBox& box, const Residue& residue, int32_t place, int32_t n,
                                              int32_t step) const {
    // Rows of staging are whole vectors, and begin at multiples of 16 bytes.
    struct alignas(kVector * sizeof(T)) Vector {
      T values[kVector];
    };
    constexpr bool kPairs = kInterleaves && kVector > 1;
    constexpr int kStaged = kPairs ? kVector / 2 : kVector;  // neighbours there
    using Words = WordsOf<kStaged * sizeof(T)>;
    const int32_t apart = params_.joins_width ? 1 : params_.residues[2];  // elements of the destination's row
    const int32_t first_w = box.first[2] * params_.residues[2] + (params_.joins_width ? 0 : residue.at[2]);
    int32_t row = place;
    const int32_t at = params_.row_vectors.take(row) * kVector;
    const int64_t offset = offsets_[row];
    if (offset < 0 || wide_product(at, apart) >= params_.size[2] - first_w) return;
    int32_t element = row * params_.row_length + at;
    if constexpr (kInterleaves) element = element / 2 + element % 2 * kM;
    uint32_t from = hopper::shared_address(staging_) +
                    static_cast<uint32_t>(n * params_.staging_pitch + element * static_cast<int32_t>(sizeof(T)));
    T* to = params_.destination + offset + (share_.first_channel + n) * params_.destination_stride.c +
            wide_product(at, apart) * params_.destination_stride.w;
    const auto pitch = static_cast<uint32_t>(step * params_.staging_pitch);
    const int64_t stride = step * params_.destination_stride.c;
    const auto store = [&](auto count) {
      constexpr int kOf = kPairs ? 2 : 1;  // residues
      Words words[count][kOf];
#pragma unroll
      for (int i = 0; i < count; ++i) {
#pragma unroll
        for (int k = 0; k < kOf; ++k) {
          words[i][k] = hopper::load_shared<Words>(from + static_cast<uint32_t>(i) * pitch +
                                                   static_cast<uint32_t>(k * kM) * sizeof(T));
        }
      }
#pragma unroll
      for (int i = 0; i < count; ++i) {
        Vector vector;
#pragma unroll
        for (int k = 0; k < kOf; ++k) {
          const auto& staged = reinterpret_cast<const T(&)[kStaged]>(words[i][k]);
#pragma unroll
          for (int e = 0; e < kStaged; ++e) vector.values[e * kOf + k] = staged[e];
        }
        if constexpr (kVector == 1) {
          *to = vector.values[0];
        } else {
          hopper::store_global(to, vector.values);
        }
        to += stride;
      }
      from += count * pitch;
    };
    constexpr int kAtOnce = 4;  // channels
#pragma unroll 1
    for (; n + (kAtOnce - 1) * step < share_.channels; n += kAtOnce * step)
      store(std::integral_constant<int, kAtOnce>{});
#pragma unroll 1
    for (; n < share_.channels; n += step) store(std::integral_constant<int, 1>{});
  }

  const StoreParams<T>& params_;
  const BlockShare& share_;
  const int64_t* offsets_;
  const unsigned char* staging_;
  int32_t thread_;
};

}  // namespace convt3d::mma
