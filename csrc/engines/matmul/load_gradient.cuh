// What a block stages of grad_output: at each position of the input all taps and channels, in the order of the weight's
// columns. Pieces of K that are neighbours in grad_output, too, are copied at once, and a table has where they are.
#pragma once

#include <cstdint>

#include "device/ptx/async_copy.cuh"
#include "device/ptx/shared_memory.cuh"
#include "engines/matmul/load.cuh"

namespace convt3d {

// Where the pieces of K are in grad_output, in elements from a position's first.
template <typename T>
__device__ __forceinline__ int32_t* matmul_places(const MatmulParams<T>& params) {
  return reinterpret_cast<int32_t*>(dynamic_shared_memory + params.layout.places);
}

template <typename T>
__device__ __forceinline__ void list_matmul_places(const MatmulParams<T>& params) {
  const MatmulPlan& plan = params.plan;
  const Strides& stride = params.source_stride;
  int32_t* const places = matmul_places(params);
  const int32_t elements = plan.copied_bytes / static_cast<int32_t>(sizeof(T));
  const int32_t count = plan.k_stages * (kMatmulStageBytes / plan.copied_bytes);
#pragma unroll 1
  for (int32_t piece = static_cast<int32_t>(threadIdx.x); piece < count; piece += static_cast<int32_t>(blockDim.x)) {
    int32_t tap = piece * elements;
    if (tap >= plan.k) tap = 0;  // copies of nothing have an address
    int32_t channel;
    if (plan.channels_last) {
      channel = params.by_channels.take(tap);
    } else {
      channel = params.by_all_taps.quotient(tap);
      tap = params.by_all_taps.remainder(tap, channel);
    }
    const int32_t w = params.by_taps[0].take(tap);
    const int32_t h = params.by_taps[1].take(tap);
    places[piece] = static_cast<int32_t>(channel * stride.c + tap * stride.d + h * stride.h + w * stride.w);
  }
}

// A thread keeps its position and walks pieces of K that follow each other.
template <typename T, MatmulTile kTile, int kBytes, int kPositionStep, int kPieceStep>
struct MatmulPositionCopies {
  static constexpr int kPositions = matmul_extent(kTile).m;
  static constexpr int kThreads = matmul_extent(kTile).threads();
  static constexpr int kPieces = kMatmulStageBytes / kBytes;  // of a position and stage
  static constexpr int kOwn = kPieces * kPositions / kThreads;
  static constexpr int kElements = kBytes / static_cast<int>(sizeof(T));
  static_assert(kOwn % 4 == 0);

  __device__ __forceinline__ static int32_t position() { return matmul_thread<kTile>() % kPositions; }

  // `from`: the position's first element. `k`: elements of K that exist at it.
  __device__ __forceinline__ static void load(const MatmulParams<T>& params, const T* from, int32_t k, uint32_t stage,
                                              int32_t first_k) {
    const int32_t first = first_piece();
    const uint32_t at = stage + first_copy();
    const int32_t left = k - first_k - first * kElements;
    const auto* const places = reinterpret_cast<const int4*>(matmul_places(params) + (first_k / kElements + first));
#pragma unroll
    for (int i = 0; i < kOwn; i += 4) {
      const int4 four = places[i / 4];
      const int32_t place[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        async_copy<kBytes>(at + (i + j) * kPieceStep, from + place[j], (i + j) * kElements < left ? kBytes : 0);
      }
    }
  }

  __device__ __forceinline__ static void round(uint32_t stage) {
    round_copies<kBytes, kOwn>(stage + first_copy(), kPieceStep);
  }

 private:
  __device__ __forceinline__ static int32_t first_piece() { return matmul_thread<kTile>() / kPositions * kOwn; }
  __device__ __forceinline__ static uint32_t first_copy() {
    return static_cast<uint32_t>(position() * kPositionStep + first_piece() * kPieceStep);
  }
};

// Words and pairs of them, by positions.
template <typename T, MatmulTile kTile, MatmulRows kRows>
class MatmulSourceLoader<T, Operator::kInputGrad, kTile, kRows> {
 public:
  static_assert(kRows == MatmulRows::kWords || kRows == MatmulRows::kPairs);
  static constexpr int kBytes = kRows == MatmulRows::kWords ? 4 : 8;
  using Copies =
      MatmulPositionCopies<T, kTile, kBytes, kBytes, matmul_source_pitch(kRows, matmul_extent(kTile).m, sizeof(T))>;

  __device__ __forceinline__ MatmulSourceLoader(const MatmulParams<T>& params, int32_t group)
      : source_(params.source + static_cast<int64_t>(group) * params.plan.out_channels * params.source_stride.c) {}

  __device__ __forceinline__ void begin(const MatmulParams<T>& params, int32_t first_position) {
    const int32_t position = first_position + Copies::position();
    k_ = position < params.plan.positions ? params.plan.k : 0;
    from_ = source_ + matmul_place<true>(params, params.source_stride, position);
  }

  __device__ __forceinline__ void load(const MatmulParams<T>& params, uint32_t stage, int32_t first_k) const {
    Copies::load(params, from_, k_, stage, first_k);
  }

  __device__ __forceinline__ void round(const MatmulParams<T>&, uint32_t stage) const { Copies::round(stage); }

 private:
  const T* source_;
  const T* from_;
  int32_t k_;  // elements of K that exist at the thread's position
};

// 16 bytes at once: by positions, or as many lanes as a stage has pieces copy those of one position.
template <typename T, MatmulTile kTile>
class MatmulSourceLoader<T, Operator::kInputGrad, kTile, MatmulRows::kChannels> {
 public:
  static constexpr int kThreads = matmul_extent(kTile).threads();
  static constexpr int kPiece = 16 / sizeof(T);
  static constexpr int kPieces = kMatmulStageBytes / 16;
  static constexpr int kRowStep = kThreads / kPieces;
  static constexpr int kOwn = matmul_extent(kTile).m / kRowStep;
  static constexpr int kPitch = matmul_source_pitch(MatmulRows::kChannels, matmul_extent(kTile).m, sizeof(T));
  using Copies = MatmulPositionCopies<T, kTile, 16, kPitch, 16>;

  __device__ __forceinline__ MatmulSourceLoader(const MatmulParams<T>& params, int32_t group)
      : source_(params.source + static_cast<int64_t>(group) * params.plan.out_channels * params.source_stride.c) {}

  __device__ __forceinline__ void begin(const MatmulParams<T>& params, int32_t first_position) {
    const bool by_positions = params.plan.by_positions;
    const auto thread = matmul_thread<kTile>();
    int32_t position = first_position + (by_positions ? Copies::position() : thread / kPieces);
    positions_ = static_cast<int32_t>(params.plan.positions) - position;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      from_[i] = source_ + matmul_place<true>(params, params.source_stride, position);
      if (by_positions) break;
      position += kRowStep;
    }
  }

  __device__ __forceinline__ void load(const MatmulParams<T>& params, uint32_t stage, int32_t first_k) const {
    if (params.plan.by_positions) {
      Copies::load(params, from_[0], positions_ > 0 ? params.plan.k : 0, stage, first_k);
      return;
    }
    const int32_t k = first_k + matmul_thread<kTile>() % kPieces * kPiece;
    const int32_t positions = k < params.plan.k ? positions_ : 0;
    const uint32_t at = stage + first_copy();
    const int32_t place = matmul_places(params)[k / kPiece];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      async_copy<16>(at + i * kRowStep * kPitch, from_[i] + place, i * kRowStep < positions ? 16 : 0);
    }
  }

  __device__ __forceinline__ void round(const MatmulParams<T>& params, uint32_t stage) const {
    if (params.plan.by_positions) return Copies::round(stage);
    round_copies<16, kOwn>(stage + first_copy(), kRowStep * kPitch);
  }

 private:
  __device__ __forceinline__ static uint32_t first_copy() {
    const auto thread = matmul_thread<kTile>();
    return static_cast<uint32_t>(thread / kPieces * kPitch + thread % kPieces * 16);
  }

  const T* source_;
  const T* from_[kOwn];
  int32_t positions_;  // from the thread's first on
};

}  // namespace convt3d
