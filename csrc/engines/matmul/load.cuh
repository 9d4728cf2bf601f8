// What a block stages of the two matrices: copies of its threads, a stage of K at a time, and zeros past the end of
// each.
#pragma once

#include <cstdint>

#include "device/ptx/async_copy.cuh"
#include "device/ptx/numeric.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/words.cuh"
#include "engines/matmul/params.cuh"

namespace convt3d {

// The offset of a position of the input, in elements: in a tensor of its size or, of outputs, of the first of its taps.
template <bool kOfOutputs, typename T>
__device__ __forceinline__ int64_t matmul_place(const MatmulParams<T>& params, const Strides& stride,
                                                int32_t position) {
  const auto scale = [&](size_t axis) { return kOfOutputs ? static_cast<int32_t>(params.plan.taps[axis]) : 1; };
  const int64_t w = params.by_size[0].take(position) * scale(2);
  const int64_t h = params.by_size[1].take(position) * scale(1);
  const int64_t d = params.by_size[2].take(position) * scale(0);
  return position * stride.n + d * stride.d + h * stride.h + w * stride.w;
}

// A thread's own copies, which have arrived: float32 becomes what the tensor cores read as the nearest TF32.
template <int kBytes, int kCount>
__device__ __forceinline__ void round_copies(uint32_t at, uint32_t step) {
  using Piece = WordsOf<kBytes>;
  constexpr int kAhead = kCount < 4 ? kCount : 4;  // read before they are stored
  static_assert(kCount % kAhead == 0);
#pragma unroll
  for (int first = 0; first < kCount; first += kAhead) {
    Piece pieces[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) pieces[i] = hopper::load_shared<Piece>(at + (first + i) * step);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      auto* const words = reinterpret_cast<uint32_t*>(&pieces[i]);
#pragma unroll
      for (int k = 0; k < kBytes / 4; ++k) words[k] = word_of_tf32(words[k]);
      hopper::store_shared(at + (first + i) * step, pieces[i]);
    }
  }
}

// The weight's columns, staged as rows of the weight: [K][N] of a forward, [N][K] of a gradient.
template <typename T, Operator kOp, MatmulTile kTile>
class MatmulWeightLoader {
 public:
  static constexpr bool kForward = kOp == Operator::kForward;
  static constexpr int kColumns = matmul_extent(kTile).n;
  static constexpr int kThreads = matmul_extent(kTile).threads();
  static constexpr int kPiece = 16 / sizeof(T);
  static constexpr int kPieces = kForward ? kColumns / kPiece : kMatmulStageBytes / 16;  // of a row
  static constexpr int kRowStep = kThreads / kPieces;
  static constexpr int kOwn = matmul_weight_rows(kOp, kColumns, sizeof(T)) / kRowStep;
  static constexpr int kPitch = matmul_weight_pitch(kOp, kColumns, sizeof(T));

  __device__ __forceinline__ MatmulWeightLoader(const MatmulParams<T>& params, int32_t group, int32_t first_column)
      : step_(kRowStep * params.weight_stride) {
    const int32_t row = matmul_thread<kTile>() / kPieces;
    const int32_t piece = matmul_thread<kTile>() % kPieces;
    const MatmulPlan& plan = params.plan;
    if constexpr (kForward) {
      const int32_t column = first_column + piece * kPiece;
      rows_ = column < plan.columns ? plan.k - row : 0;
      weight_ = params.weight + (static_cast<int64_t>(group) * plan.k + row) * params.weight_stride + column;
    } else {
      const int32_t column = first_column + row;
      rows_ = plan.columns - column;
      weight_ =
          params.weight + (static_cast<int64_t>(group) * plan.columns + column) * params.weight_stride + piece * kPiece;
    }
    at_ = static_cast<uint32_t>(row * kPitch + piece * 16);
  }

  __device__ __forceinline__ void load(const MatmulParams<T>& params, uint32_t stage, int32_t first_k) const {
    const T* from = weight_ + (kForward ? first_k * params.weight_stride : first_k);
    int32_t rows = rows_;
    if constexpr (kForward) {
      rows -= first_k;
    } else if (first_k + matmul_thread<kTile>() % kPieces * kPiece >= params.plan.k) {
      rows = 0;
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      async_copy<16>(stage + at_ + i * kRowStep * kPitch, from, i * kRowStep < rows ? 16 : 0);
      from += step_;
    }
  }

  __device__ __forceinline__ void round(uint32_t stage) const {
    round_copies<16, kOwn>(stage + at_, kRowStep * kPitch);
  }

 private:
  int64_t step_;
  const T* weight_;
  int32_t rows_;  // from the thread's first on
  uint32_t at_;
};

// The source's rows, as they are staged.
template <typename T, Operator kOp, MatmulTile kTile, MatmulRows kRows>
class MatmulSourceLoader;

// The input's rows: positions, of channels that lie side by side.
template <typename T, MatmulTile kTile>
class MatmulSourceLoader<T, Operator::kForward, kTile, MatmulRows::kChannels> {
 public:
  static constexpr int kThreads = matmul_extent(kTile).threads();
  static constexpr int kPiece = 16 / sizeof(T);
  static constexpr int kPieces = kMatmulStageBytes / 16;  // of a row
  static constexpr int kRowStep = kThreads / kPieces;
  static constexpr int kOwn = matmul_extent(kTile).m / kRowStep;
  static constexpr int kPitch = matmul_source_pitch(MatmulRows::kChannels, matmul_extent(kTile).m, sizeof(T));

  __device__ __forceinline__ MatmulSourceLoader(const MatmulParams<T>& params, int32_t group)
      : row_(matmul_thread<kTile>() / kPieces),
        channel_(matmul_thread<kTile>() % kPieces * kPiece),
        input_(params.source + (static_cast<int64_t>(group) * params.plan.k + channel_)) {}

  __device__ __forceinline__ void begin(const MatmulParams<T>& params, int32_t first_position) {
    int32_t position = first_position + row_;
    positions_ = static_cast<int32_t>(params.plan.positions) - position;
    if (params.plan.linear) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) row_of_[i] = input_ + (position + i * kRowStep) * params.source_stride.w;
      return;
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      row_of_[i] = input_ + matmul_place<false>(params, params.source_stride, position);
      position += kRowStep;
    }
  }

  __device__ __forceinline__ void load(const MatmulParams<T>& params, uint32_t stage, int32_t first_k) const {
    const int32_t positions = first_k + channel_ < params.plan.k ? positions_ : 0;
    const uint32_t at = first_copy(stage);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      async_copy<16>(at + i * kRowStep * kPitch, row_of_[i] + first_k, i * kRowStep < positions ? 16 : 0);
    }
  }

  __device__ __forceinline__ void round(const MatmulParams<T>&, uint32_t stage) const {
    round_copies<16, kOwn>(first_copy(stage), kRowStep * kPitch);
  }

 private:
  __device__ __forceinline__ uint32_t first_copy(uint32_t stage) const {
    return stage + static_cast<uint32_t>(row_ * kPitch) + static_cast<uint32_t>(matmul_thread<kTile>()) % kPieces * 16;
  }

  int32_t row_;
  int32_t channel_;
  int32_t positions_;  // from the thread's first on
  const T* input_;
  const T* row_of_[kOwn];
};

// The input's rows: channels, of positions that lie side by side. A thread keeps its positions and walks the channels.
template <typename T, MatmulTile kTile>
class MatmulSourceLoader<T, Operator::kForward, kTile, MatmulRows::kPositions> {
 public:
  static constexpr int kPositions = matmul_extent(kTile).m;
  static constexpr int kThreads = matmul_extent(kTile).threads();
  static constexpr int kDepth = kMatmulStageBytes / sizeof(T);
  static constexpr int kPitch = matmul_source_pitch(MatmulRows::kPositions, kPositions, sizeof(T));

  __device__ __forceinline__ MatmulSourceLoader(const MatmulParams<T>& params, int32_t group)
      : input_(params.source + static_cast<int64_t>(group) * params.plan.k * params.source_stride.c) {}

  __device__ __forceinline__ void begin(const MatmulParams<T>& params, int32_t first_position) {
    const int32_t bytes = max(params.plan.copied_bytes, 4);
    const int32_t count = bytes / static_cast<int32_t>(sizeof(T));
    const int32_t piece = matmul_thread<kTile>() & (kPositions / count - 1);
    const int32_t position = first_position + piece * count;
    const auto positions = static_cast<int32_t>(params.plan.positions);
    channels_ = position < positions ? params.plan.k : 0;
    place_ = place_of(params, position);
    if constexpr (sizeof(T) == 2) next_ = place_of(params, min(position + 1, positions - 1));
  }

  __device__ __forceinline__ void load(const MatmulParams<T>& params, uint32_t stage, int32_t first_k) const {
    if (params.plan.copied_bytes == 16) {
      copy<16>(params, stage, first_k);
    } else if (params.plan.copied_bytes == 4) {
      copy<4>(params, stage, first_k);
    } else if constexpr (sizeof(T) == 2) {
      move(params, stage, first_k);
    }
  }

  __device__ __forceinline__ void round(const MatmulParams<T>& params, uint32_t stage) const {
    if (params.plan.copied_bytes == 16) {
      using Own = Copies<16>;
      round_copies<16, Own::kOwn>(stage + Own::at(), Own::kRowStep * kPitch);
    } else {
      using Own = Copies<4>;
      round_copies<4, Own::kOwn>(stage + Own::at(), Own::kRowStep * kPitch);
    }
  }

 private:
  // A thread's own of a stage, kBytes at once.
  template <int kBytes>
  struct Copies {
    static constexpr int kPieces = kPositions * static_cast<int>(sizeof(T)) / kBytes;  // of a row
    static constexpr int kRowStep = kThreads / kPieces;
    static constexpr int kOwn = kDepth / kRowStep;
    static_assert(kThreads % kPieces == 0 && kDepth % kRowStep == 0);

    __device__ __forceinline__ static int32_t row() { return matmul_thread<kTile>() / kPieces; }
    __device__ __forceinline__ static uint32_t at() {
      return static_cast<uint32_t>(row() * kPitch + matmul_thread<kTile>() % kPieces * kBytes);
    }
  };

  __device__ __forceinline__ static int64_t place_of(const MatmulParams<T>& params, int32_t position) {
    const int32_t image = params.by_volume.quotient(position);
    return image * params.source_stride.n + params.by_volume.remainder(position, image);
  }

  template <int kBytes>
  __device__ __forceinline__ void copy(const MatmulParams<T>& params, uint32_t stage, int32_t first_k) const {
    using Own = Copies<kBytes>;
    const uint32_t at = stage + Own::at();
    const int32_t left = channels_ - first_k - Own::row();
    const T* from = input_ + ((first_k + Own::row()) * params.source_stride.c + place_);
    const int64_t step = Own::kRowStep * params.source_stride.c;
#pragma unroll
    for (int i = 0; i < Own::kOwn; ++i) {
      async_copy<kBytes>(at + i * Own::kRowStep * kPitch, from, i * Own::kRowStep < left ? kBytes : 0);
      from += step;
    }
  }

  // Two elements of 16 bits, which are a word there and anywhere here.
  __device__ __forceinline__ void move(const MatmulParams<T>& params, uint32_t stage, int32_t first_k) const {
    constexpr int kPieces = kPositions / 2;
    constexpr int kRowStep = kThreads / kPieces;
    const auto row = matmul_thread<kTile>() / kPieces;
    const uint32_t at =
        stage + static_cast<uint32_t>(row * kPitch) + static_cast<uint32_t>(matmul_thread<kTile>()) % kPieces * 4;
    const int32_t left = channels_ - first_k - row;
    const auto* from = reinterpret_cast<const uint16_t*>(input_) + (first_k + row) * params.source_stride.c;
#pragma unroll 4
    for (int i = 0; i < kDepth / kRowStep; ++i) {
      uint32_t word = 0;
      if (i * kRowStep < left) word = __ldg(from + place_) | static_cast<uint32_t>(__ldg(from + next_)) << 16;
      hopper::store_shared(at + i * kRowStep * kPitch, word);
      from += kRowStep * params.source_stride.c;
    }
  }

  const T* input_;
  int32_t channels_;  // that exist at the thread's positions
  int64_t place_;
  int64_t next_;  // of 16 bits that go through registers
};

}  // namespace convt3d
