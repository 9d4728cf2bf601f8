// A warp's share of a weight gradient: rows (tap, output channel) in eights, each of which reads the tile of
// grad_output at a shift of its own, and columns of input channels.
#pragma once

#include "device/ptx/mma.cuh"
#include "device/two_terms.cuh"
#include "engines/mma/weight_grad/rows.cuh"

namespace convt3d::mma {

// The positions, or words of two, whose rows a warp sums for the bias: `left` of them from a step on, `step` from one
// of its steps to the next. Where `step` is zero no rows are summed.
struct Summed {
  int32_t left = 0;
  int32_t step = 0;
  // Of float32: of the halves of steps that the warp has, how many have the lane's first position among them, and how
  // many its second.
  int32_t halves[2] = {};
};

// A warp has kRows fragments of 16 rows and kColumns of 8 columns. kSumsRows: rows are summed for the bias, too: of 16
// bits as products with ones; of float32, whose bits the tensor cores would cut, as they are read.
template <typename T, int kTerms, int kRows, int kColumns, bool kSumsRows = false>
class GradProduct {
  static_assert(!kSumsRows || kTerms == 1);

 public:
  static constexpr int kFragments = kRows;
  static constexpr bool kWords = FragmentOffsets<T>::kWords;
  // Lanes beside each other that have a part of a row's sum each; else all of four have all of it.
  static constexpr bool kRowParts = std::is_same_v<T, float>;

  float sum[kRows][kColumns][4];
  float row_sum[kSumsRows ? kRows : 1][2];  // sums of the two rows of each fragment that a lane has

  // `rows`: fragments that the warp has; offset_of(eight): bytes from a position's row in the tile of grad_output to
  // where that eight of its rows reads; `step`: of width pairs, words from a position's word to its neighbour's.
  template <typename OffsetOf>
  __device__ __forceinline__ GradProduct(int32_t rows, const GradChannels& channels, int32_t step, OffsetOf&& offset_of)
      : rows_(rows), eight_columns_(static_cast<uint32_t>(8 * channels.input)) {
    const auto lane = static_cast<int32_t>(threadIdx.x % 32);
    if constexpr (kIsPaired<T>) pairs_ = PairReads::of_lane(step, lane);
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      offset_[m].set(lane, channels.grad, pairs_, [&](int32_t i) { return offset_of(2 * m + i); });
    }
    clear();
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int n = 0; n < kColumns; ++n) zero(sum[m][n]);
      if constexpr (kSumsRows) row_sum[m][0] = row_sum[m][1] = 0;
    }
  }

  // Bytes from a position's row of the input to what a lane reads of a warp's channels, of which `column` is the first.
  __device__ __forceinline__ static uint32_t to_columns(int32_t column, int32_t channel_bytes, int32_t lane) {
    return static_cast<uint32_t>(column * channel_bytes + (kWords ? lane / 4 * channel_bytes : lane / 16 * 16));
  }

  // Adds all of a warp's steps of a box. `entries`: shared address of the first step's entries, `apart` bytes before
  // the next one's; `grad`, `input`: shared addresses of the staged tiles, from the lane's columns on.
  __device__ __forceinline__ void add(uint32_t entries, uint32_t apart, int32_t steps, uint32_t grad, uint32_t input,
                                      const Summed& summed = {}) {
    if constexpr (kTerms == 1) {
      with_rows<kRows>(
          [&](auto rows) { add_steps<decltype(rows)::value>(entries, apart, steps, grad, input, summed); });
    } else {
#pragma unroll 1
      for (; steps > 0; --steps, entries += apart) add_two_terms(entries, grad, input);
    }
  }

 private:
  __device__ __forceinline__ static void zero(float (&c)[4]) {
#pragma unroll
    for (int k = 0; k < 4; ++k) c[k] = 0;
  }
  __device__ __forceinline__ static int32_t lane() { return static_cast<int32_t>(threadIdx.x % 32); }

  // Calls visit(Rows<n>) with the number of fragments that the warp has, and not at all where it has none.
  template <int kCount>
  struct Rows {
    static constexpr int value = kCount;
  };
  template <int kCount, typename Visit>
  __device__ __forceinline__ void with_rows(Visit&& visit) const {
    if constexpr (kCount > 0) {
      if (rows_ == kCount) return visit(Rows<kCount>{});
      with_rows<kCount - 1>(visit);
    }
  }

  // Where a lane reads sixteen positions of 16 bits: its rows of both operands' matrices.
  __device__ __forceinline__ static PositionEntry matrix_rows(uint32_t entries, const PositionEntry& of_lane) {
    return {hopper::load_shared<uint32_t>(entries + of_lane.grad),
            hopper::load_shared<uint32_t>(entries + of_lane.input)};
  }

  // A column of ones as an operand: for those of the lane's positions of a step (of half a step, where they are read as
  // words) that are among those left, else zeros.
  struct Ones {
    uint32_t words[kSumsRows ? 2 : 1];

    // All of them are left.
    __device__ __forceinline__ Ones() {
      if constexpr (kSumsRows) words[0] = words[1] = kOne << 16 | kOne;
    }
    __device__ __forceinline__ explicit Ones([[maybe_unused]] int32_t left) {
      if constexpr (kSumsRows) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int32_t first = kWords ? lane() % 4 + 4 * i : lane() % 4 * 2 + 8 * i;
          const int32_t second = kWords ? first : first + 1;
          words[i] = (first < left ? kOne : 0) | (second < left ? kOne << 16 : 0);
        }
      }
    }

   private:
    static constexpr uint32_t kOne = std::is_same_v<ElementOf<T>, __half> ? 0x3C00 : 0x3F80;
  };
  // The sums of rows of 16 bits, in all columns alike.
  __device__ __forceinline__ static void sum_rows(float (&sums)[4], const uint32_t (&a)[4], const Ones& ones) {
    zero(sums);
    if constexpr (kSumsRows) multiply_add<ElementOf<T>>(sums, a, ones.words);
  }
  __device__ __forceinline__ void add_rows(int m, const float (&sums)[4]) {
    if constexpr (kSumsRows) {
      row_sum[m][0] += sums[0];
      row_sum[m][1] += sums[2];
    }
  }
  // Rows of float32: those of the lane's two positions that are among the summed ones.
  __device__ __forceinline__ void add_rows(int m, const uint32_t (&a)[4], const bool (&counts)[2]) {
    if constexpr (kSumsRows) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (counts[i / 2]) row_sum[m][i % 2] += __uint_as_float(a[i]);
      }
    }
  }

  // Adds steps of one term.
  template <int kCount>
  __device__ __forceinline__ void add_steps(uint32_t entries, uint32_t apart, int32_t steps, uint32_t grad,
                                            uint32_t input, Summed summed) {
    if constexpr (!kWords) {
      // These are kept in registers, not computed anew for each step.
      const PositionEntry computed = matrix_entries(lane());
      const PositionEntry of_lane = {hopper::computed_here(computed.grad), hopper::computed_here(computed.input)};
      PositionEntry next = matrix_rows(entries, of_lane);
      Ones ones;
#pragma unroll 1
      for (; steps > 0; --steps) {
        const PositionEntry now = next;
        next = matrix_rows(entries += apart, of_lane);  // past the last step, of something that nobody uses
        if (kSumsRows && summed.left < kGradStep) ones = Ones(summed.left);
        add_matrices<kCount>(grad + now.grad, input + now.input, ones, summed.step > 0);
        summed.left -= summed.step;
      }
    } else if constexpr (kIsPaired<T>) {
#pragma unroll 1
      for (; steps > 0; --steps, entries += apart) {
        // Halves of a step come one after the other, as there are no registers for both.
#pragma unroll 1
        for (uint32_t half = 0; half < kGradStep; half += 8) {
          add_pairs<kCount>({entries + half * uint32_t{sizeof(PositionEntry)}, grad, input, lane()},
                            {summed.left - static_cast<int32_t>(half), summed.step});
        }
        summed.left -= summed.step;
      }
    } else if (eight_columns_ == kEightChannels) {
      add_words<kCount, true>(entries, apart, steps, grad, input, summed);
    } else {
      add_words<kCount, false>(entries, apart, steps, grad, input, summed);
    }
  }

  // Adds steps of float32, in halves, as there are no registers for a whole one. kNeighbours: channels of the input lie
  // beside each other.
  template <int kCount, bool kNeighbours>
  __device__ __forceinline__ void add_words(uint32_t entries, uint32_t apart, int32_t steps, uint32_t grad,
                                            uint32_t input, const Summed& summed) {
    constexpr uint32_t kHalf = kGradStep / 2 * sizeof(PositionEntry);
    entries += PositionWords::of_lane(lane());
    uint4 next = hopper::load_shared<uint4>(entries);
#pragma unroll 1
    for (int32_t half = 0; half < 2 * steps; ++half) {
      const PositionWords at(next, grad, input);
      entries += half % 2 == 0 ? kHalf : apart - kHalf;
      next = hopper::load_shared<uint4>(entries);  // past the last step, of something that nobody uses
      const bool counts[2] = {half < summed.halves[0], half < summed.halves[1]};
      uint32_t b[kColumns][2];
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        load_columns(at, n, kNeighbours ? kEightChannels : eight_columns_, b[n]);
        round(b[n]);
      }
      const auto load = [&](int m, uint32_t (&a)[4]) { at.load_rows(offset_[m].of, a); };
      for_each_row<kCount>(load, [&](int m, uint32_t (&a)[4]) {
        add_rows(m, a, counts);
        round(a);
#pragma unroll
        for (int n = 0; n < kColumns; ++n) multiply_add<ElementOf<T>>(sum[m][n], a, b[n]);
      });
    }
  }

  // Adds half a step of width pairs.
  template <int kCount>
  __device__ __forceinline__ void add_pairs(const PositionWords& at, const Summed& summed) {
    uint32_t b[kColumns][2];
#pragma unroll
    for (int n = 0; n < kColumns; ++n) load_columns(at, n, eight_columns_, b[n]);
    const Ones ones(summed.left);
    const auto load = [&](int m, uint32_t (&a)[4]) { at.load_rows(offset_[m].of, a); };
    for_each_row<kCount>(load, [&](int m, uint32_t (&a)[4]) {
      pairs_.part_taps(a);
#pragma unroll
      for (int n = 0; n < kColumns; ++n) multiply_add<ElementOf<T>>(sum[m][n], a, b[n]);
      if (summed.step <= 0) return;
      float sums[4];
      sum_rows(sums, a, ones);
      add_rows(m, sums);
    });
  }

  // Adds a step of 16 bits, read as matrices of eight positions and eight channels, transposed on their way.
  template <int kCount>
  __device__ __forceinline__ void add_matrices(uint32_t a_row, uint32_t b_row, const Ones& ones, bool sums_rows) {
    uint32_t b[kColumns][2];
    if constexpr (kColumns == 1) {
      load_matrices_transposed<2>(b[0], b_row);
    } else {
#pragma unroll
      for (int n = 0; n < kColumns; n += 2) {
        uint32_t two[4];
        load_matrices_transposed<4>(two, b_row + static_cast<uint32_t>(n * 16));
        b[n][0] = two[0];
        b[n][1] = two[1];
        b[n + 1][0] = two[2];
        b[n + 1][1] = two[3];
      }
    }
    const auto load = [&](int m, uint32_t (&a)[4]) { load_matrices_transposed<4>(a, a_row + offset_[m].of[0]); };
    for_each_row<kCount>(load, [&](int m, uint32_t (&a)[4]) {
      float sums[4];  // on their way while the columns are multiplied
      zero(sums);
      if (sums_rows) sum_rows(sums, a, ones);
#pragma unroll
      for (int n = 0; n < kColumns; ++n) multiply_add<ElementOf<T>>(sum[m][n], a, b[n]);
      add_rows(m, sums);
    });
  }

  // Loads the next fragment before it multiplies one.
  template <int kCount, typename Load, typename Multiply>
  __device__ __forceinline__ static void for_each_row(Load&& load, Multiply&& multiply) {
    uint32_t a[2][4];
    load(0, a[0]);
#pragma unroll
    for (int m = 0; m < kCount; ++m) {
      if (m + 1 < kCount) load(m + 1, a[(m + 1) % 2]);
      multiply(m, a[m % 2]);
    }
  }

  // `eight`: bytes from eight columns to the next.
  __device__ __forceinline__ static void load_columns(const PositionWords& at, int n, uint32_t eight,
                                                      uint32_t (&b)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) b[i] = hopper::load_shared<uint32_t>(at.input[i] + static_cast<uint32_t>(n) * eight);
  }

  template <int kCount>
  __device__ __forceinline__ static void round(uint32_t (&words)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) words[i] = to_matrix_word<ElementOf<T>>(words[i]);
  }

  // Takes numbers apart into two terms: the nearest TF32, and what it leaves.
  template <int kCount>
  __device__ __forceinline__ static void part(uint32_t (&high)[kCount], uint32_t (&low)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const TwoTerms terms = two_terms(__uint_as_float(high[i]));
      high[i] = terms.high;
      low[i] = terms.low;
    }
  }

  // The tensor cores cut their sums, so that only these few products are summed there: those with a low term first.
  __device__ __forceinline__ void add_two_terms(uint32_t entries, uint32_t grad, uint32_t input) {
    const PositionWords at[2] = {PositionWords(entries, grad, input, lane()),
                                 PositionWords(entries + 8 * sizeof(PositionEntry), grad, input, lane())};
    uint32_t high_b[2][kColumns][2];
    uint32_t low_b[2][kColumns][2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        load_columns(at[k], n, eight_columns_, high_b[k][n]);
        part(high_b[k][n], low_b[k][n]);
      }
    }
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      if (m >= rows_) break;
      float few[kColumns][4];
#pragma unroll
      for (int n = 0; n < kColumns; ++n) zero(few[n]);
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        uint32_t high[4];
        uint32_t low[4];
        at[k].load_rows(offset_[m].of, high);
        part(high, low);
#pragma unroll
        for (int n = 0; n < kColumns; ++n) multiply_add<ElementOf<T>>(few[n], low, high_b[k][n]);
#pragma unroll
        for (int n = 0; n < kColumns; ++n) multiply_add<ElementOf<T>>(few[n], high, low_b[k][n]);
#pragma unroll
        for (int n = 0; n < kColumns; ++n) multiply_add<ElementOf<T>>(few[n], high, high_b[k][n]);
      }
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[m][n][i] += few[n][i];
      }
    }
  }

  static constexpr uint32_t kEightChannels = 8 * sizeof(T);  // bytes of channels beside each other

  int32_t rows_;
  PairReads pairs_{};
  FragmentOffsets<T> offset_[kRows];
  uint32_t eight_columns_;  // where words are read: bytes from eight columns to the next
};

}  // namespace convt3d::mma
