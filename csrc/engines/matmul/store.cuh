// A tile's sums -> the output, through shared memory. Where an element goes is what its position and its column add.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/ptx/shared_memory.cuh"
#include "engines/matmul/load.cuh"
#include "engines/matmul/mainloop.cuh"
#include "epilogue/apply.cuh"

namespace convt3d {

template <typename T, MatmulTile kTile>
class MatmulStorer {
 public:
  static constexpr MatmulExtent kExtent = matmul_extent(kTile);
  static constexpr int kThreads = kExtent.threads();
  static constexpr int64_t kNowhere = -1;

  __device__ __forceinline__ explicit MatmulStorer(const MatmulParams<T>& params)
      : staged_(dynamic_shared_memory + params.layout.output),
        places_(reinterpret_cast<int64_t*>(dynamic_shared_memory + params.layout.positions)),
        columns_(reinterpret_cast<int64_t*>(dynamic_shared_memory + params.layout.columns)),
        bias_(reinterpret_cast<float*>(columns_ + kExtent.n)) {}

  // What the block's columns add to a place, and to a sum.
  __device__ __forceinline__ void begin(const MatmulParams<T>& params, int32_t group, int32_t first_column) const {
    const Strides& stride = params.output_stride;
    const auto i = static_cast<int32_t>(threadIdx.x);
    if (i >= kExtent.n) return;
    int32_t tap = first_column + i;
    if (tap >= params.plan.columns) {
      columns_[i] = kNowhere;
      bias_[i] = 0;
      return;
    }
    int32_t channel;
    if (params.plan.channels_last) {
      channel = params.by_channels.take(tap);
    } else {
      channel = params.by_all_taps.quotient(tap);
      tap = params.by_all_taps.remainder(tap, channel);
    }
    const int64_t of_layer = static_cast<int64_t>(group) * params.plan.out_channels + channel;
    const int64_t w = params.by_taps[0].take(tap);
    const int64_t h = params.by_taps[1].take(tap);
    columns_[i] = of_layer * stride.c + tap * stride.d + h * stride.h + w * stride.w;
    bias_[i] = bias_of<T>(params.epilogue, of_layer);
  }

  template <typename Sums>
  __device__ __forceinline__ void store(const MatmulParams<T>& params, Sums& sums, int32_t first_position) const {
    const int32_t taps[3] = {static_cast<int32_t>(params.plan.taps[0]), static_cast<int32_t>(params.plan.taps[1]),
                             static_cast<int32_t>(params.plan.taps[2])};
    if (const auto i = static_cast<int32_t>(threadIdx.x); i < kExtent.m) {
      const int32_t position = first_position + i;
      places_[i] =
          position < params.plan.positions ? matmul_place(params, params.output_stride, position, taps) : kNowhere;
    }
    stage(params, sums);
    __syncthreads();
    switch (params.plan.store.elements) {
      case 1:
        return write<1>(params);
      case 2:
        return write<2>(params);
      case 4:
        return write<4>(params);
      default:
        if constexpr (sizeof(T) == 2) return write<8>(params);
    }
  }

 private:
  template <typename Sums>
  __device__ __forceinline__ void stage(const MatmulParams<T>& params, Sums& sums) const {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t first = sums.first_column + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < Sums::kColumns; ++j) {
      const float bias[2] = {bias_[first + j * 8], bias_[first + j * 8 + 1]};
#pragma unroll
      for (int i = 0; i < Sums::kFragments; ++i) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sums.sum[i][j][k] += bias[k % 2];
      }
    }
    activate(params.epilogue, &sums.sum[0][0][0], Sums::kFragments * Sums::kColumns * 4);
    unsigned char* const to =
        staged_ + (sums.first_position + lane / 4) * params.layout.output_pitch + first * sizeof(T);
#pragma unroll
    for (int i = 0; i < 2 * Sums::kFragments; ++i) {
      unsigned char* const row = to + i * 8 * params.layout.output_pitch;
#pragma unroll
      for (int j = 0; j < Sums::kColumns; ++j) {
        const float (&sum)[4] = sums.sum[i / 2][j];
        const float left = sum[i % 2 * 2];
        const float right = sum[i % 2 * 2 + 1];
        if constexpr (sizeof(T) == 2) {
          *reinterpret_cast<uint32_t*>(row + j * 8 * sizeof(T)) = rounded_pair<T>(left, right);
        } else {
          reinterpret_cast<float*>(row)[j * 8] = left;
          reinterpret_cast<float*>(row)[j * 8 + 1] = right;
        }
      }
    }
  }

  // Pieces of kCount columns of one position.
  template <int kCount>
  __device__ __forceinline__ void write(const MatmulParams<T>& params) const {
    // A thread keeps a piece of the columns and walks the positions, or the other way round.
    constexpr int32_t kPieces = kExtent.n / kCount;
    static_assert(kThreads % kPieces == 0 && kThreads % kExtent.m == 0);
    const auto thread = static_cast<int32_t>(threadIdx.x);
    const bool by_columns = params.plan.store.by_columns;
    const int32_t lanes = by_columns ? kPieces : kExtent.m;
    const int32_t own = thread & (lanes - 1);
    const int64_t of_own = by_columns ? columns_[own * kCount] : places_[own];
    if (of_own < 0) return;
    const int32_t step = kThreads / lanes;
    const int32_t first = thread / lanes;
    // Of what is walked: elements of the table, and of a staged tile.
    const int64_t* table = by_columns ? places_ + first : columns_ + first * kCount;
    const int32_t table_step = by_columns ? step : step * kCount;
    const int32_t own_bytes = by_columns ? kCount * static_cast<int32_t>(sizeof(T)) : params.layout.output_pitch;
    const int32_t walked_bytes = by_columns ? params.layout.output_pitch : kCount * static_cast<int32_t>(sizeof(T));
    const unsigned char* from = staged_ + own * own_bytes + first * walked_bytes;
    T* const output = params.output + of_own;
#pragma unroll 2
    for (int32_t left = kPieces * kExtent.m / kThreads; left > 0; --left) {
      const int64_t of_walked = *table;
      if (of_walked >= 0) {
        T* const to = output + of_walked;
        if constexpr (kCount * sizeof(T) < 4) {
          *to = *reinterpret_cast<const T*>(from);
        } else {
          using Piece = std::conditional_t<kCount * sizeof(T) == 4, uint32_t,
                                           std::conditional_t<kCount * sizeof(T) == 8, uint2, uint4>>;
          *reinterpret_cast<Piece*>(to) = *reinterpret_cast<const Piece*>(from);
        }
      }
      table += table_step;
      from += step * walked_bytes;
    }
  }

  unsigned char* staged_;
  int64_t* places_;
  int64_t* columns_;
  float* bias_;
};

}  // namespace convt3d
