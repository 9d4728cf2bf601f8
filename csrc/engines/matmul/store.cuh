// A tile's sums -> the result. Each warp stages its own in shared memory, a slab at a time, and waits for no other.
// Where an element goes is what its position and its column add.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/numeric.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/split_sum.cuh"
#include "device/words.cuh"
#include "engines/matmul/load.cuh"
#include "engines/matmul/mainloop.cuh"
#include "epilogue/apply.cuh"

namespace convt3d {

template <typename T, Operator kOp, MatmulTile kTile, int kTerms>
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

  // Where a tile's positions are, for `store` past a barrier; `odd`: of every second tile, as the places of the tile
  // before may still be read.
  __device__ __forceinline__ void place(const MatmulParams<T>& params, int32_t first_position, bool odd) const {
    const auto i = matmul_thread<kTile>();
    if (i >= kExtent.m) return;
    const int32_t position = first_position + i;
    places_[(odd ? kExtent.m : 0) + i] =
        position < params.plan.positions ? matmul_place<kForward>(params, params.result_stride, position) : kNowhere;
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

  // The sums of all splits, by the block that is done last. False: by another.
  template <bool kTeams, typename Sums>
  __device__ __forceinline__ bool add_splits(const MatmulParams<T>& params, int32_t tile, int32_t share, int32_t split,
                                             Sums& sums) const {
    constexpr int kPieces = Sums::kFragments * Sums::kColumns;
    constexpr int64_t kSums = int64_t{kExtent.m} * kExtent.n;
    const int32_t thread = matmul_thread<kTile>();
    const int64_t number = int64_t{share} * params.plan.m_tiles + tile;
    float* const partial = params.partial + number * params.plan.splits * kSums + thread * 4;
    auto& adds = *reinterpret_cast<bool*>(dynamic_shared_memory + params.layout.adds());
    auto& pieces = reinterpret_cast<float (&)[kPieces][4]>(sums.sum);
    leave_split<kThreads>(partial + split * kSums, pieces);
    sync_matmul_team<kTile, kTeams>();
    if (thread == 0) count_split(params.counters, number, params.plan.splits, adds);
    sync_matmul_team<kTile, kTeams>();
    if (!adds) return false;
    convt3d::add_splits<kThreads, 4, 1>(partial, params.plan.splits, pieces);
    return true;
  }

  template <typename Sums>
  __device__ __forceinline__ void store(const MatmulParams<T>& params, Sums& sums, bool odd) const {
    const int64_t* const places = places_ + (odd ? kExtent.m : 0) + sums.first_position;
    const int64_t* const columns = columns_ + sums.first_column;
    unsigned char* const staged = staged_ + matmul_thread<kTile>() / 32 * params.layout.slab_bytes;
    const int32_t pitch = params.layout.result_pitch;
    const bool by_pieces = params.plan.store.by_pieces;
    if constexpr (kForward) {
      finish(params, sums);
    } else if (params.plan.store.of_positions) {
      constexpr int kParts = matmul_slab_parts(Sums::kColumns, kTerms, sizeof(T));
      constexpr int kSlabs = Sums::kColumns / kParts;
      constexpr int kRows = kParts * kMatmulPartColumns;
#pragma unroll 1
      for (int slab = 0; slab < kSlabs; ++slab) {
        __syncwarp();  // the slab before has been read
        with_index<kSlabs>(
            slab, [&](auto known) { stage_columns<decltype(known)::value * kParts, kParts>(sums, staged, pitch); });
        __syncwarp();
        write<kRows, Sums::kFragments * 16>(params, staged, columns + slab * kRows, places, true);
      }
      return;
    }
    constexpr int kParts = matmul_slab_parts(Sums::kFragments, kTerms, sizeof(T));
    constexpr int kSlabs = Sums::kFragments / kParts;
    constexpr int kRows = kParts * kMatmulPartPositions;
#pragma unroll 1
    for (int slab = 0; slab < kSlabs; ++slab) {
      __syncwarp();
      with_index<kSlabs>(slab,
                         [&](auto known) { stage_rows<decltype(known)::value * kParts, kParts>(sums, staged, pitch); });
      __syncwarp();
      write<kRows, Sums::kColumns * 8>(params, staged, places + slab * kRows, columns, by_pieces);
    }
  }

 private:
  // A register's number is known where it is used: one copy of the code for each, and of what follows only one.
  template <int kCount, typename Function>
  __device__ __forceinline__ static void with_index(int index, Function&& function) {
    if constexpr (kCount > 1) {
      if (index != kCount - 1) return with_index<kCount - 1>(index, function);
    }
    function(std::integral_constant<int, kCount - 1>());
  }

  template <typename Sums>
  __device__ __forceinline__ void finish(const MatmulParams<T>& params, Sums& sums) const {
    const int32_t first = sums.first_column + static_cast<int32_t>(threadIdx.x) % 4 * 2;
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
  }

  // Rows of a position's columns: of kParts fragments.
  template <int kFirst, int kParts, typename Sums>
  __device__ __forceinline__ static void stage_rows(const Sums& sums, unsigned char* slab, int32_t pitch) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
    unsigned char* const to = slab + lane / 4 * pitch + lane % 4 * 2 * static_cast<int32_t>(sizeof(T));
#pragma unroll
    for (int i = 0; i < 2 * kParts; ++i) {
#pragma unroll
      for (int j = 0; j < Sums::kColumns; ++j) {
        unsigned char* const pair = to + i * 8 * pitch + j * 8 * sizeof(T);
        const float left = sums.sum[kFirst + i / 2][j][i % 2 * 2];
        const float right = sums.sum[kFirst + i / 2][j][i % 2 * 2 + 1];
        if constexpr (sizeof(T) == 2) {
          *reinterpret_cast<uint32_t*>(pair) = rounded_pair<T>(left, right);
        } else {
          *reinterpret_cast<uint2*>(pair) = uint2{__float_as_uint(left), __float_as_uint(right)};
        }
      }
    }
  }

  // Rows of a column's positions: of kParts times 8 columns.
  template <int kFirst, int kParts, typename Sums>
  __device__ __forceinline__ static void stage_columns(const Sums& sums, unsigned char* slab, int32_t pitch) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
#pragma unroll
    for (int j = 0; j < kParts; ++j) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        T* const row = reinterpret_cast<T*>(slab + (j * 8 + lane % 4 * 2 + k) * pitch) + lane / 4;
#pragma unroll
        for (int i = 0; i < 2 * Sums::kFragments; ++i) {
          row[i * 8] = from_accumulator<T>(sums.sum[i / 2][kFirst + j][i % 2 * 2 + k]);
        }
      }
    }
  }

  // A slab of kRows x kWidth elements: `rows` and `width` say what its rows and what lies along them add to a place.
  template <int kRows, int kWidth>
  __device__ __forceinline__ static void write(const MatmulParams<T>& params, const unsigned char* slab,
                                               const int64_t* rows, const int64_t* width, bool by_pieces) {
    const auto pieces_of = [&](auto count) {
      constexpr int kCount = decltype(count)::value;
      if (by_pieces) {
        write_pieces<kRows, kWidth, kCount, true>(params, slab, rows, width);
      } else {
        write_pieces<kRows, kWidth, kCount, false>(params, slab, rows, width);
      }
    };
    switch (params.plan.store.elements) {
      case 1:
        return pieces_of(std::integral_constant<int, 1>());
      case 2:
        return pieces_of(std::integral_constant<int, 2>());
      case 4:
        return pieces_of(std::integral_constant<int, 4>());
      default:
        if constexpr (sizeof(T) == 2) return pieces_of(std::integral_constant<int, 8>());
    }
  }

  // Pieces of kCount elements along a row. Lanes have neighbouring pieces and walk the rows, or have neighbouring rows
  // and walk the pieces.
  template <int kRows, int kWidth, int kCount, bool kByPieces>
  __device__ __forceinline__ static void write_pieces(const MatmulParams<T>& params, const unsigned char* slab,
                                                      const int64_t* rows, const int64_t* width) {
    constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
    using Piece = WordsOf<kBytes>;
    constexpr int kPieces = kWidth / kCount;  // of a row
    constexpr int kNeighbours = kByPieces ? kPieces : kRows;
    constexpr int kLanes = kNeighbours < 32 ? kNeighbours : 32;
    constexpr int kStep = 32 / kLanes;
    constexpr int kWalk = (kByPieces ? kRows : kPieces) / kStep;
    constexpr int kAhead = kWalk < 4 ? kWalk : 4;  // read before they are stored
    static_assert(kLanes * kStep == 32 && kWalk % kAhead == 0);
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
    const int32_t pitch = params.layout.result_pitch;
    const int32_t first = lane / kLanes;
#pragma unroll 1
    for (int32_t own = lane % kLanes; own < kNeighbours; own += kLanes) {
      const int64_t of_own = kByPieces ? width[own * kCount] : rows[own];
      const int64_t* table = kByPieces ? rows + first : width + first * kCount;
      const unsigned char* from = slab + (kByPieces ? first * pitch + own * kBytes : own * pitch + first * kBytes);
      const int32_t step = kStep * (kByPieces ? pitch : kBytes);
      T* const result = params.result + of_own;
#pragma unroll 1
      for (int walked = 0; walked < kWalk; walked += kAhead) {
        int64_t place[kAhead];
        Piece piece[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
          place[i] = table[i * kStep * (kByPieces ? 1 : kCount)];
          piece[i] = *reinterpret_cast<const Piece*>(from + i * step);
        }
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
          if (of_own >= 0 && place[i] >= 0) *reinterpret_cast<Piece*>(result + place[i]) = piece[i];
        }
        table += kAhead * kStep * (kByPieces ? 1 : kCount);
        from += kAhead * step;
      }
    }
  }

  unsigned char* staged_;
  int64_t* places_;
  int64_t* columns_;
  float* bias_;
};

}  // namespace convt3d
