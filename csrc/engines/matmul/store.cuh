// A tile's sums -> the result, through shared memory. Where an element goes is what its position and its column add.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/numeric.cuh"
#include "device/ptx/shared_memory.cuh"
#include "engines/matmul/load.cuh"
#include "engines/matmul/mainloop.cuh"
#include "epilogue/apply.cuh"

namespace convt3d {

template <typename T, Operator kOp, MatmulTile kTile>
class MatmulStorer {
 public:
  static constexpr MatmulExtent kExtent = matmul_extent(kTile);
  static constexpr int kThreads = kExtent.threads();
  static constexpr int64_t kNowhere = -1;
  static constexpr bool kForward = kOp == Operator::kForward;

  __device__ __forceinline__ explicit MatmulStorer(const MatmulParams<T>& params)
      : staged_(dynamic_shared_memory + params.layout.result),
        places_(reinterpret_cast<int64_t*>(dynamic_shared_memory + params.layout.positions)),
        columns_(reinterpret_cast<int64_t*>(dynamic_shared_memory + params.layout.columns)),
        bias_(reinterpret_cast<float*>(columns_ + kExtent.n)) {}

  // What the block's columns add to a place, and to a sum.
  __device__ __forceinline__ void begin(const MatmulParams<T>& params, int32_t group, int32_t first_column) const {
    const Strides& stride = params.result_stride;
    const auto i = matmul_thread<kTile>();
    if (i >= kExtent.n) return;
    int32_t tap = first_column + i;
    if (tap >= params.plan.columns) {
      columns_[i] = kNowhere;
      if constexpr (kForward) bias_[i] = 0;
      return;
    }
    int32_t channel;
    if constexpr (!kForward) {
      columns_[i] = (static_cast<int64_t>(group) * params.plan.columns + tap) * stride.c;
      return;
    }
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

  // The sums of all teams, in their order, for the first one's threads.
  template <typename Sums>
  __device__ __forceinline__ void join(const MatmulParams<T>& params, Sums& sums) const {
    constexpr int kCount = Sums::kFragments * Sums::kColumns * 4;
    const int32_t team = static_cast<int32_t>(threadIdx.x) / kThreads;
    float* const joined = reinterpret_cast<float*>(staged_) + matmul_thread<kTile>();
    float* const own = &sums.sum[0][0][0];
    __syncthreads();  // nobody reads the tile before
    for (int32_t turn = params.plan.teams - 1; turn > 0; --turn) {
      if (team == turn) {
        const bool is_first = turn == params.plan.teams - 1;
#pragma unroll
        for (int i = 0; i < kCount; ++i) joined[i * kThreads] = is_first ? own[i] : joined[i * kThreads] + own[i];
      }
      __syncthreads();
    }
    if (team != 0) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) own[i] += joined[i * kThreads];
    sync_matmul_team<kTile, true>();
  }

  template <bool kTeams, typename Sums>
  __device__ __forceinline__ void store(const MatmulParams<T>& params, Sums& sums, int32_t first_position) const {
    if (const auto i = matmul_thread<kTile>(); i < kExtent.m) {
      const int32_t position = first_position + i;
      places_[i] =
          position < params.plan.positions ? matmul_place<kForward>(params, params.result_stride, position) : kNowhere;
    }
    stage(params, sums);
    sync_matmul_team<kTile, kTeams>();
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
    if constexpr (kForward) {
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
    } else if (params.plan.store.of_positions) {
      stage_columns(params, sums);
      return;
    }
    const int32_t pitch = params.layout.result_pitch;
    unsigned char* const to = staged_ + (sums.first_position + lane / 4) * pitch + first * sizeof(T);
#pragma unroll
    for (int i = 0; i < 2 * Sums::kFragments; ++i) {
      unsigned char* const row = to + i * 8 * pitch;
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

  // Rows of a column's positions.
  template <typename Sums>
  __device__ __forceinline__ void stage_columns(const MatmulParams<T>& params, const Sums& sums) const {
    const uint32_t lane = threadIdx.x % 32;
    const int32_t pitch = params.layout.result_pitch;
    unsigned char* const to = staged_ + (sums.first_column + lane % 4 * 2) * pitch;
    const uint32_t first = sums.first_position + lane / 4;
#pragma unroll
    for (int j = 0; j < Sums::kColumns; ++j) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        T* const row = reinterpret_cast<T*>(to + (j * 8 + k) * pitch) + first;
#pragma unroll
        for (int i = 0; i < 2 * Sums::kFragments; ++i)
          row[i * 8] = from_accumulator<T>(sums.sum[i / 2][j][i % 2 * 2 + k]);
      }
    }
  }

  // Pieces of kCount columns of one position or, of a gradient, of kCount positions of one column.
  template <int kCount>
  __device__ __forceinline__ void write(const MatmulParams<T>& params) const {
    static_assert(kThreads % (kExtent.n / kCount) == 0 && kThreads % kExtent.m == 0 && kExtent.m == kExtent.n);
    constexpr int32_t kPieces = kExtent.n / kCount;  // of a staged row
    const MatmulStore& store = params.plan.store;
    const bool of_positions = !kForward && store.of_positions;
    const int64_t* const pieces = of_positions ? places_ : columns_;
    const int64_t* const rows = of_positions ? columns_ : places_;
    // A thread keeps a piece and walks the rows, or the other way round.
    const auto thread = matmul_thread<kTile>();
    const bool by_pieces = store.by_pieces;
    const int32_t lanes = by_pieces ? kPieces : kExtent.m;
    const int32_t own = thread & (lanes - 1);
    const int64_t of_own = by_pieces ? pieces[own * kCount] : rows[own];
    if (of_own < 0) return;
    const int32_t step = kThreads / lanes;
    const int32_t first = thread / lanes;
    // Of what is walked: elements of the table, and of a staged tile.
    const int64_t* table = by_pieces ? rows + first : pieces + first * kCount;
    const int32_t table_step = by_pieces ? step : step * kCount;
    constexpr int32_t kBytes = kCount * static_cast<int32_t>(sizeof(T));
    const int32_t own_bytes = by_pieces ? kBytes : params.layout.result_pitch;
    const int32_t walked_bytes = by_pieces ? params.layout.result_pitch : kBytes;
    const unsigned char* from = staged_ + own * own_bytes + first * walked_bytes;
    T* const result = params.result + of_own;
#pragma unroll 2
    for (int32_t left = kPieces * kExtent.m / kThreads; left > 0; --left) {
      const int64_t of_walked = *table;
      if (of_walked >= 0) {
        T* const to = result + of_walked;
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
