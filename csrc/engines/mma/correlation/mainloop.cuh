// A warp's share of a product: positions from the staged tile, channels from packed weights, both in shared memory.
#pragma once

#include "device/matrix_element.cuh"
#include "device/ptx/matrices.cuh"
#include "device/ptx/mma.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/two_terms.cuh"
#include "device/width_pair.cuh"
#include "engines/mma/tile/shape.h"
#include "engines/mma/tile/tile.h"

namespace convt3d::mma {

// kChannelRows: the tile has them (tile/tile.h), and is read word by word. kTwoSteps: a thread has registers for what
// two steps multiply, of one term.
template <typename T, int kTerms, int kWarpM, int kWarpN, bool kChannelRows = false, bool kTwoSteps = false>
class WarpProduct {
  static_assert(!kChannelRows || sizeof(T) == 4);
  static_assert(!kTwoSteps || kTerms == 1);

 public:
  static constexpr int kRows = kWarpM / 16;                        // fragments
  static constexpr int kColumns = kWarpN / 8;                      // fragments
  static constexpr int kPieces = kColumns > 1 ? kColumns / 2 : 1;  // of a step's weight, of each term
  static constexpr int kLaneBytes = kColumns > 1 ? 16 : 8;         // of a piece

  static constexpr int kNamed = kChannelRows ? 2 * kRows : kRows;  // rows that a lane names

  float sum[kRows][kColumns][4];

 private:
  // What a step reads is under way while the one before is multiplied; 64 x 32 of channel rows has no registers for it.
  static constexpr bool kReadsAhead = !kChannelRows || kWarpM != 64 || kWarpN != 32;

 public:
  // `rows`: shared addresses, in a tile that begins at 0, of the rows that this lane names: see load_matrices() and
  // name_row(). `lane_weight`: from a step's weight to this lane's first piece of it. `step_bytes`: from a step to the
  // next. `channel_bytes`: of channel rows, from a channel to the next.
  __device__ __forceinline__ WarpProduct(const uint32_t (&rows)[kNamed], uint32_t lane_weight, uint32_t step_bytes,
                                         uint32_t channel_bytes)
      : lane_weight_(lane_weight), step_bytes_(step_bytes), channel_bytes_(channel_bytes) {
#pragma unroll
    for (int i = 0; i < kNamed; ++i) rows_[i] = rows[i];
  }

  // The position, among those of the warp, whose row the lane names as its i-th, and from there the channels that it
  // reads: of rows of channels lanes 0 to 15 name the first 16 bytes, the others the next; of channel rows lane t of
  // four reads channels 2t and 2t + 1 of positions lane/4 and lane/4 + 8.
  struct Named {
    int32_t position;
    uint32_t bytes;
  };
  __device__ __forceinline__ static Named name_row(int i, int32_t lane, uint32_t channel_bytes) {
    if constexpr (kChannelRows) return {i * 8 + lane / 4, static_cast<uint32_t>(lane % 4 * 2) * channel_bytes};
    return {i * 16 + lane % 16, static_cast<uint32_t>(lane / 16 * kPieceBytes)};
  }

  // A number of the table of steps.
  __device__ __forceinline__ static uint32_t entry(uint32_t table, int32_t step) {
    return hopper::load_shared<uint32_t>(table + static_cast<uint32_t>(step) * 4);
  }
  // Fragment i of a step, from the rows that a lane names. Which channel is which of K's is for the packed weight to
  // know.
  __device__ __forceinline__ static void read_fragment(uint32_t (&a)[4], const uint32_t (&rows)[kNamed], int i,
                                                       uint32_t tile, uint32_t channel_bytes) {
    if constexpr (kChannelRows) {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        a[k] = hopper::load_shared<uint32_t>(rows[2 * i + k % 2] + tile + static_cast<uint32_t>(k / 2) * channel_bytes);
    } else {
      load_matrices<4>(a, rows[i] + tile);
    }
  }
  // A fragment of a step, of one term, as the tensor cores take it. Packed weights are rounded already.
  __device__ __forceinline__ static void round(uint32_t (&words)[4]) {
#pragma unroll
    for (int k = 0; k < 4; ++k) words[k] = to_matrix_word<ElementOf<T>>(words[k]);
  }

  __device__ __forceinline__ static void clear(float (&c)[kRows][kColumns][4]) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int k = 0; k < 4; ++k) c[i][j][k] = 0;
      }
    }
  }

  __device__ __forceinline__ void clear() { clear(sum); }

  // Steps of K one after another; at least one. `table`: shared address of `count` numbers, bytes from the rows in the
  // tile at `tile`. Their weights lie one after another from `weight` on. Reads the number past the last one, too.
  __device__ __forceinline__ void add(uint32_t table, int32_t count, uint32_t tile, uint32_t weight) {
    weight += lane_weight_;
    if constexpr (kTwoSteps) {
      Step steps[2];
      const uint32_t first = tile + entry(table, 0);
#pragma unroll
      for (int i = 0; i < kRows; ++i) read_positions(steps[0].a[i], i, first);
#pragma unroll
      for (int p = 0; p < kPieces; ++p) read_piece(steps[0].b[p], p, weight);
      uint32_t next = tile + entry(table, 1);
      int32_t s = 1;
      // The next step's factors are on their way from this one's first product on.
      const auto multiply_reading = [&](Step& now, Step& then) {
        weight += step_bytes_;
        const uint32_t at = next;
        next = tile + entry(table, ++s);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          read_positions(then.a[i], i, at);
#pragma unroll
          for (int p = i * kPieces / kRows; p < (i + 1) * kPieces / kRows; ++p) read_piece(then.b[p], p, weight);
          multiply_row(i, now.a[i], now.b);
        }
      };
      const auto multiply_last = [&](Step& now) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) multiply_row(i, now.a[i], now.b);
      };
#pragma unroll 1
      while (s + 1 < count) {
        multiply_reading(steps[0], steps[1]);
        multiply_reading(steps[1], steps[0]);
      }
      if (s < count) {
        multiply_reading(steps[0], steps[1]);
        multiply_last(steps[1]);
      } else {
        multiply_last(steps[0]);
      }
    } else if constexpr (kTerms == 1 && !kReadsAhead) {
#pragma unroll 1
      for (int32_t s = 0; s < count; ++s) {
        uint32_t b[kPieces][4];
#pragma unroll
        for (int p = 0; p < kPieces; ++p) read_piece(b[p], p, weight);
        weight += step_bytes_;
        const uint32_t at = tile + entry(table, s);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          uint32_t a[4];
          read_positions(a, i, at);
          multiply_row(i, a, b);
        }
      }
    } else if constexpr (kTerms == 1) {
      uint32_t a[kRows][4];
      uint32_t b[kPieces][4];
      const uint32_t first = tile + entry(table, 0);
#pragma unroll
      for (int i = 0; i < kRows; ++i) read_positions(a[i], i, first);
#pragma unroll
      for (int p = 0; p < kPieces; ++p) read_piece(b[p], p, weight);
      uint32_t next = tile + entry(table, 1);
#pragma unroll 1
      for (int32_t s = 1; s < count; ++s) {
        weight += step_bytes_;
        const uint32_t at = next;
        next = tile + entry(table, s + 1);
        // What was multiplied makes room for that of the next step, which is under way while the rest is multiplied.
        [[maybe_unused]] uint32_t only[4];
        if constexpr (kPieces == 1) read_piece(only, 0, weight);
#pragma unroll
        for (int p = 0; p < kPieces; ++p) {
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
            if (p == 0) round(a[i]);
            multiply(sum[i], p, a[i], b[p]);
            if (p == kPieces - 1) read_positions(a[i], i, at);
          }
          if constexpr (kPieces > 1) read_piece(b[p], p, weight);
        }
        if constexpr (kPieces == 1) {
#pragma unroll
          for (int k = 0; k < kPieceWords; ++k) b[0][k] = only[k];
        }
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) round(a[i]);
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) multiply(sum[i], p, a[i], b[p]);
      }
    } else {
      // The tensor cores cut their sums: what they sum of a step joins float32 sums in registers.
      for (int32_t s = 0; s < count; ++s) {
        float part[kRows][kColumns][4];
        clear(part);
        multiply_terms(part, tile + entry(table, s), weight);
        weight += step_bytes_;
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
  // What a step multiplies.
  struct Step {
    uint32_t a[kRows][4];
    uint32_t b[kPieces][4];
  };
  __device__ __forceinline__ void multiply_row(int i, uint32_t (&a)[4], const uint32_t (&b)[kPieces][4]) {
    round(a);
#pragma unroll
    for (int p = 0; p < kPieces; ++p) multiply(sum[i], p, a, b[p]);
  }

  __device__ __forceinline__ void read_positions(uint32_t (&a)[4], int i, uint32_t tile) const {
    read_fragment(a, rows_, i, tile, channel_bytes_);
  }

  // Columns 2p and the next; there may be one column in all.
  static constexpr int kPieceWords = kColumns > 1 ? 4 : 2;
  __device__ __forceinline__ static void read_piece(uint32_t (&words)[4], int p, uint32_t weight) {
    weight += static_cast<uint32_t>(p * 32 * kLaneBytes);
    if constexpr (kColumns == 1) {
      const uint2 piece = hopper::load_shared<uint2>(weight);
      words[0] = piece.x;
      words[1] = piece.y;
    } else {
      const uint4 piece = hopper::load_shared<uint4>(weight);
      words[0] = piece.x;
      words[1] = piece.y;
      words[2] = piece.z;
      words[3] = piece.w;
    }
  }

  __device__ __forceinline__ static void multiply(float (&c)[kColumns][4], int p, const uint32_t (&a)[4],
                                                  const uint32_t (&piece)[4]) {
#pragma unroll
    for (int j = 0; j < kPieceWords / 2; ++j) {
      const uint32_t b[2] = {piece[2 * j], piece[2 * j + 1]};
      multiply_add<ElementOf<T>>(c[2 * p + j], a, b);
    }
  }

  __device__ __forceinline__ void multiply_terms(float (&c)[kRows][kColumns][4], uint32_t tile, uint32_t weight) const {
    uint32_t b[2][kPieces][4];
#pragma unroll
    for (int t = 0; t < 2; ++t) {
#pragma unroll
      for (int p = 0; p < kPieces; ++p) read_piece(b[t][p], p + t * kPieces, weight);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      uint32_t high[4];
      uint32_t low[4];
      read_positions(high, i, tile);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const TwoTerms terms = two_terms(__uint_as_float(high[k]));
        high[k] = terms.high;
        low[k] = terms.low;
      }
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {
        multiply(c[i], p, low, b[0][p]);
        multiply(c[i], p, high, b[1][p]);
        multiply(c[i], p, high, b[0][p]);
      }
    }
  }

  uint32_t rows_[kNamed];
  uint32_t lane_weight_;
  uint32_t step_bytes_;
  uint32_t channel_bytes_;
};

}  // namespace convt3d::mma
