// A warp's share of a product: positions from the staged tile, channels from packed weights.
#pragma once

#include "device/matrix_element.cuh"
#include "device/ptx/matrices.cuh"
#include "device/ptx/mma.cuh"
#include "device/two_terms.cuh"
#include "engines/mma/shape.h"

namespace convt3d::mma {

template <typename T, int kTerms, int kWarpM, int kWarpN>
class WarpProduct {
 public:
  static constexpr int kRows = kWarpM / 16;                        // fragments
  static constexpr int kColumns = kWarpN / 8;                      // fragments
  static constexpr int kPieces = kColumns > 1 ? kColumns / 2 : 1;  // of a step's weight, of each term
  static constexpr int kLaneBytes = kColumns > 1 ? 16 : 8;         // of a piece

  float sum[kRows][kColumns][4];

  // `rows`: shared addresses, in a tile that begins at 0, of the rows that this lane names: see load_matrices().
  // `weight`: this lane's piece of the first step. `step_bytes`: from a step to the next.
  __device__ __forceinline__ WarpProduct(const uint32_t (&rows)[kRows], const unsigned char* weight, int32_t step_bytes)
      : weight_(weight), step_bytes_(step_bytes) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) rows_[i] = rows[i];
  }

  // Before the first step: reads its weight.
  __device__ __forceinline__ void begin() { fetch(); }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) zero(sum[i][j]);
    }
  }

  // Steps of K one after another, at table[0 .. count) bytes from the rows, in the tile at `tile`. Reads table and
  // weight of the step past the last one, too.
  __device__ __forceinline__ void add(const int32_t* table, int32_t count, uint32_t tile) {
    if constexpr (kTerms == 1) {
      int32_t next = table[0];  // a step ahead, as the weight is
#pragma unroll 2
      for (int32_t s = 0; s < count; ++s) {
        const int32_t offset = next;
        next = table[s + 1];
        step(sum, tile + static_cast<uint32_t>(offset));
      }
    } else {
      // The tensor cores cut their sums: what they sum of a step joins float32 sums in registers.
      for (int32_t s = 0; s < count; ++s) {
        float part[kRows][kColumns][4];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
          for (int j = 0; j < kColumns; ++j) zero(part[i][j]);
        }
        step(part, tile + static_cast<uint32_t>(table[s]));
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
          for (int j = 0; j < kColumns; ++j) {
#pragma unroll
            for (int k = 0; k < 4; ++k) sum[i][j][k] += part[i][j][k];
          }
        }
      }
    }
  }

 private:
  struct Weights {
    uint32_t b[kTerms][kColumns][2];
  };

  __device__ __forceinline__ static void zero(float (&c)[4]) {
#pragma unroll
    for (int k = 0; k < 4; ++k) c[k] = 0;
  }

  // Not by way of __ldg: the weight was perhaps not there when the kernel began.
  __device__ __forceinline__ void fetch() {
#pragma unroll
    for (int t = 0; t < kTerms; ++t) {
      if constexpr (kColumns == 1) {
        const uint2 piece = *reinterpret_cast<const uint2*>(weight_ + t * 32 * kLaneBytes);
        next_.b[t][0][0] = piece.x;
        next_.b[t][0][1] = piece.y;
      } else {
#pragma unroll
        for (int p = 0; p < kPieces; ++p) {
          const uint4 piece = *reinterpret_cast<const uint4*>(weight_ + (t * kPieces + p) * 32 * kLaneBytes);
          next_.b[t][2 * p][0] = piece.x;
          next_.b[t][2 * p][1] = piece.y;
          next_.b[t][2 * p + 1][0] = piece.z;
          next_.b[t][2 * p + 1][1] = piece.w;
        }
      }
    }
    weight_ += step_bytes_;
  }

  __device__ __forceinline__ void step(float (&c)[kRows][kColumns][4], uint32_t offset) {
    const Weights now = next_;
    fetch();
    uint32_t a[kRows][4];
#pragma unroll
    for (int i = 0; i < kRows; ++i) load_matrices<4>(a[i], rows_[i] + offset);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if constexpr (kTerms == 1) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) multiply_add<T>(c[i][j], a[i], now.b[0][j]);
      } else {
        uint32_t low[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const TwoTerms terms = two_terms(__uint_as_float(a[i][k]));
          a[i][k] = terms.high;
          low[k] = terms.low;
        }
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          multiply_add<T>(c[i][j], low, now.b[0][j]);
          multiply_add<T>(c[i][j], a[i], now.b[1][j]);
          multiply_add<T>(c[i][j], a[i], now.b[0][j]);
        }
      }
    }
  }

  uint32_t rows_[kRows];
  const unsigned char* weight_;
  int32_t step_bytes_;
  Weights next_;
};

}  // namespace convt3d::mma
