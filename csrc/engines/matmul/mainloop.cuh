// The products of a stage: fragments from shared memory, and the tensor cores.
#pragma once

#include <cstdint>

#include "device/matrix_element.cuh"
#include "device/ptx/matrices.cuh"
#include "device/ptx/mma.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/two_terms.cuh"
#include "engines/matmul/params.cuh"

namespace convt3d {

// The sums of a warp: kFragments x 16 positions by kColumns x 8 columns of the block's tile.
// kRounded: both matrices are TF32 as they are staged.
template <typename T, Operator kOp, MatmulTile kTile, MatmulRows kRows, int kTerms, bool kRounded>
class MatmulSums {
 public:
  static constexpr MatmulExtent kExtent = matmul_extent(kTile);
  static constexpr MatmulWarps kWarps = matmul_warps(kTile, kOp, sizeof(T));
  static constexpr int kFragments = kExtent.m / kWarps.m / 16;
  static constexpr int kColumns = kExtent.n / kWarps.n / 8;
  static constexpr bool kWords = sizeof(T) == 4;
  static constexpr bool kByChannels = kRows == MatmulRows::kChannels;
  static constexpr bool kPairs = kRows == MatmulRows::kPairs;
  // Whether positions are read word by word: only what lies in the order of K is read as matrices, or elements of 16
  // bits in the order of positions.
  static constexpr bool kByWords = !kByChannels && (kWords || kRows != MatmulRows::kPositions);
  static constexpr bool kWeightByColumns = kOp == Operator::kForward;  // [K][N]
  static constexpr uint32_t kSourcePitch = matmul_source_pitch(kRows, kExtent.m, sizeof(T));
  static constexpr uint32_t kWeightPitch = matmul_weight_pitch(kOp, kExtent.n, sizeof(T));
  // Steps that are unrolled: as many as registers are left for. Past the end of K they multiply zeros.
  static constexpr int kUnrolled = kTerms == 2 ? 1 : kWords && kTile == MatmulTile::k64x64 ? 4 : 2;
  static_assert(kMatmulStageSteps % kUnrolled == 0);
  // From a fragment, or 32 bytes of K, to the next.
  static constexpr uint32_t kPositionBytes = kByChannels ? kSourcePitch : kPairs ? 8 : kByWords ? 4 : sizeof(T);
  static constexpr uint32_t kFragmentStep = 16 * kPositionBytes;
  static constexpr uint32_t kSourceStep = kByChannels ? 32
                                                      : 32 /
                                                            (kPairs     ? 8
                                                             : kByWords ? 4
                                                                        : sizeof(T)) *
                                                            kSourcePitch;
  static constexpr uint32_t kWeightStep = kWeightByColumns ? 32 / sizeof(T) * kWeightPitch : 32;

  float sum[kFragments][kColumns][4];

  __device__ __forceinline__ MatmulSums() {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t warp = static_cast<uint32_t>(matmul_thread<kTile>()) / 32;
    first_position = static_cast<int32_t>(warp / kWarps.n) * kFragments * 16;
    first_column = static_cast<int32_t>(warp % kWarps.n) * kColumns * 8;
    constexpr uint32_t pitch = kSourcePitch;
    if constexpr (kByChannels) {
      // Matrices: 8 positions x 16 bytes of channels; the next 8 positions; then both of the next 16 bytes.
      source_ = (first_position + lane % 16) * pitch + lane / 16 * 16;
    } else if constexpr (kPairs) {
      source_ = lane % 4 / 2 * pitch + (first_position + lane / 4) * 8 + lane % 2 * 4;
    } else {
      // A lane's own of four words, or matrices of 8 channels x 8 positions, transposed.
      source_ = kByWords ? lane % 4 * pitch + (first_position + lane / 4) * 4
                         : (lane / 16 * 8 + lane % 8) * pitch + (first_position + lane / 8 % 2 * 8) * 2;
    }
    constexpr uint32_t rows = kWeightPitch;
    if constexpr (!kWeightByColumns) {
      // Matrices: 8 columns x 16 bytes of K; the next 16 bytes; then both of the next 8 columns.
      weight_ = (first_column + lane / 16 * 8 + lane % 8) * rows + lane / 8 % 2 * 16;
    } else {
      weight_ = kWords ? lane % 4 * rows + (first_column + lane / 4) * 4
                       : lane % 16 * rows + (first_column + lane / 16 * 8) * 2;
    }
    clear();
  }

  __device__ __forceinline__ void clear() { clear(sum); }

  // A stage's part of the sums, or the first steps of it.
  __device__ __forceinline__ void add(uint32_t source, uint32_t weight, int32_t steps) {
    source += source_;
    weight += weight_;
#pragma unroll 1
    for (int32_t s = 0; s < steps; s += kUnrolled) {
#pragma unroll
      for (int u = 0; u < kUnrolled; ++u) add_step(source + u * kSourceStep, weight + u * kWeightStep);
      source += kUnrolled * kSourceStep;
      weight += kUnrolled * kWeightStep;
    }
  }

  int32_t first_position;  // of the warp, in the tile
  int32_t first_column;

 private:
  __device__ __forceinline__ static void clear(float (&c)[kFragments][kColumns][4]) {
#pragma unroll
    for (int i = 0; i < kFragments; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int k = 0; k < 4; ++k) c[i][j][k] = 0;
      }
    }
  }

  __device__ __forceinline__ void add_step(uint32_t source, uint32_t weight) {
    uint32_t b[kColumns][2];
    read_columns(b, weight);
    if constexpr (kTerms == 2) {
      add_terms(source, b);
    } else {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        b[j][0] = matrix_word(b[j][0]);
        b[j][1] = matrix_word(b[j][1]);
      }
#pragma unroll
      for (int i = 0; i < kFragments; ++i) {
        uint32_t a[4];
        read_positions(a, source + i * kFragmentStep);
#pragma unroll
        for (int k = 0; k < 4; ++k) a[k] = matrix_word(a[k]);
#pragma unroll
        for (int j = 0; j < kColumns; ++j) multiply_add<T>(sum[i][j], a, b[j]);
      }
    }
  }

  __device__ __forceinline__ static uint32_t matrix_word(uint32_t word) {
    return kRounded ? word : to_matrix_word<T>(word);
  }

  // The tensor cores cut their sums: what they sum of a step joins float32 sums in registers.
  __device__ __forceinline__ void add_terms(uint32_t source, const uint32_t (&b)[kColumns][2]) {
    uint32_t high[kColumns][2];
    uint32_t low[kColumns][2];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const TwoTerms terms = two_terms(__uint_as_float(b[j][k]));
        high[j][k] = terms.high;
        low[j][k] = terms.low;
      }
    }
#pragma unroll
    for (int i = 0; i < kFragments; ++i) {
      uint32_t a_high[4];
      uint32_t a_low[4];
      read_positions(a_high, source + i * kFragmentStep);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const TwoTerms terms = two_terms(__uint_as_float(a_high[k]));
        a_high[k] = terms.high;
        a_low[k] = terms.low;
      }
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        float part[4] = {0, 0, 0, 0};
        multiply_add<T>(part, a_low, high[j]);
        multiply_add<T>(part, a_high, low[j]);
        multiply_add<T>(part, a_high, high[j]);
#pragma unroll
        for (int k = 0; k < 4; ++k) sum[i][j][k] += part[k];
      }
    }
  }

  __device__ __forceinline__ void read_positions(uint32_t (&a)[4], uint32_t at) const {
    if constexpr (kByChannels) {
      load_matrices<4>(a, at);
    } else if constexpr (kByWords) {
      constexpr uint32_t four_words = (kPairs ? 2 : 4) * kSourcePitch;
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) {
        a[k] = hopper::load_shared<uint32_t>(at + k % 2 * 8 * kPositionBytes + k / 2 * four_words);
      }
    } else {
      load_matrices_transposed<4>(a, at);
    }
  }

  __device__ __forceinline__ void read_columns(uint32_t (&b)[kColumns][2], uint32_t at) const {
    if constexpr (kWords && kWeightByColumns) {
#pragma unroll
      for (uint32_t j = 0; j < kColumns; ++j) {
        b[j][0] = hopper::load_shared<uint32_t>(at + j * 32);
        b[j][1] = hopper::load_shared<uint32_t>(at + j * 32 + 4 * kWeightPitch);
      }
    } else {
      static_assert(kColumns % 2 == 0);
#pragma unroll
      for (uint32_t j = 0; j < kColumns; j += 2) {
        uint32_t pair[4];  // of 8 columns each: the first and the last half of K, then of the next columns
        if constexpr (kWeightByColumns) {
          load_matrices_transposed<4>(pair, at + j * 16);
        } else {
          load_matrices<4>(pair, at + j * 8 * kWeightPitch);
        }
        b[j][0] = pair[0];
        b[j][1] = pair[1];
        b[j + 1][0] = pair[2];
        b[j + 1][1] = pair[3];
      }
    }
  }

  uint32_t source_;
  uint32_t weight_;
};

}  // namespace convt3d
