// Fills a staged tile with box after box of a source. Where the rows of a box begin in the source is a table, made anew
// for each box, so that a piece costs two reads of it and no products of strides.
#pragma once

#include "device/matrix_element.cuh"
#include "device/ptx/async_copy.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/ptx/thread_barrier.cuh"
#include "device/source.cuh"
#include "engines/mma/layouts.h"
#include "engines/mma/weight_grad_plan.h"

namespace convt3d::mma {

template <typename T>
struct BoxSource {
  Source<T> source;
  LoadWay way;
  bool rounds;  // float32 enters as TF32, rounded
  int64_t batch;
  TapParts taps[3];  // of the input: one that reads the position itself
  int32_t images;
  int32_t row_bytes[4];  // from an image, a depth, a height, a width of the tile to the next
  int32_t pieces;        // of a row
  int32_t lines;         // images, depths and heights of the tile
  int32_t columns;       // entries of the table along the width
  Divisor by_pieces;
  Divisor by_columns;  // or by pairs of them
  Divisor by_rows[2];  // depth, height of the tile
  Divisor by_length[2];
  Divisor by_units;
};

// Of a line of a box, or of a place along it; what is not in the source is nowhere, and so are sums with it.
struct alignas(16) TablePlace {
  int64_t offset;  // in elements
  int32_t row;     // in bytes, in the tile; negative where it has none
};
constexpr int64_t kNowhere = -(int64_t{1} << 62);

// kThreads threads load.
template <typename T, int kThreads>
class BoxLoader {
  static constexpr int kChannels = kPieceChannels<T>;
  static constexpr int kInFlight = 32 / kChannels;  // pieces of a thread that are gathered at once: 32 words or fewer

 public:
  __device__ __forceinline__ BoxLoader(const BoxSource<T>& params, const int32_t (&part)[3], bool in_parts,
                                       int32_t thread, unsigned char* table)
      : params_(params),
        thread_(thread),
        lines_(reinterpret_cast<TablePlace*>(table)),
        columns_(lines_ + params.lines),
        mask_lines_(reinterpret_cast<int64_t*>(columns_ + params.columns)),
        mask_columns_(mask_lines_ + params.lines) {
    for (int a = 0; a < 3; ++a) base_[a] = params.taps[a].offset(in_parts ? part[a] : 0, 0);
  }

  // Of the box whose first position this is. All threads meet before it is read, and again before it is made anew.
  __device__ __forceinline__ void make_table(int32_t image, const int32_t (&first)[3]) const {
    const bool masked = params_.source.mask != nullptr;
    for (int32_t i = thread_; i < params_.lines; i += kThreads) {
      int32_t rest = i;
      const int32_t h = params_.by_rows[1].take(rest);
      const int32_t d = params_.by_rows[0].take(rest);
      const int32_t at_h = coordinate(1, first[1], h, params_.by_length[1].quotient(h));
      const int32_t at_d = coordinate(0, first[0], d, params_.by_length[0].quotient(d));
      const int64_t n = image + rest;
      const bool exists = at_d >= 0 && at_h >= 0 && n < params_.batch;
      const auto offset = [&](const Strides& stride) {
        return exists ? n * stride.n + at_d * stride.d + at_h * stride.h : kNowhere;
      };
      lines_[i] = {offset(params_.source.stride),
                   rest * params_.row_bytes[0] + d * params_.row_bytes[1] + h * params_.row_bytes[2]};
      if (masked) mask_lines_[i] = offset(params_.source.mask_stride);
    }
    for (int32_t i = thread_; i < params_.columns; i += kThreads) {
      int32_t row = -1;
      int32_t at = params_.way == LoadWay::kWidthPairs ? pair_coordinate(first[2], i, row) : 0;
      if (params_.way != LoadWay::kWidthPairs) {
        // Neighbours in the source, where the residues of the width are all there.
        int32_t unit = i;
        const int32_t in_unit = params_.by_units.quotient(i);
        unit -= in_unit * params_.taps[2].units;
        row = unit * params_.taps[2].length + in_unit;
        at = coordinate(2, first[2], row, unit);
      }
      const auto offset = [&](const Strides& stride) { return at >= 0 ? at * stride.w : kNowhere; };
      columns_[i] = {offset(params_.source.stride), row < 0 ? -1 : row * params_.row_bytes[3]};
      if (masked) mask_columns_[i] = offset(params_.source.mask_stride);
    }
  }

  // Channels [channel, channel + channels) of the source. Copies are not committed; what threads store is in place.
  __device__ __forceinline__ void load(int64_t channel, int32_t channels, uint32_t to) const {
    const bool masked = params_.source.mask != nullptr;
    switch (params_.way) {
      case LoadWay::kCopy:
        return copy(channel, channels, to);
      case LoadWay::kPieces:
        return gather<LoadWay::kPieces, true>(channel, channels, to);
      case LoadWay::kChannels:
        return masked ? gather<LoadWay::kChannels, true>(channel, channels, to)
                      : gather<LoadWay::kChannels, false>(channel, channels, to);
      case LoadWay::kWidth:
        return masked ? gather<LoadWay::kWidth, true>(channel, channels, to)
                      : gather<LoadWay::kWidth, false>(channel, channels, to);
      case LoadWay::kWidthPairs:
        if constexpr (sizeof(T) == 2) {
          return masked ? gather<LoadWay::kWidthPairs, true>(channel, channels, to)
                        : gather<LoadWay::kWidthPairs, false>(channel, channels, to);
        }
    }
  }

  // Rounds what this thread copied, which has arrived.
  __device__ __forceinline__ void round_copied(uint32_t to) const {
    if constexpr (sizeof(T) == 4) {
      if (!params_.rounds || params_.way != LoadWay::kCopy) return;
      const int32_t count = params_.lines * params_.columns * params_.pieces;
      for (int32_t item = thread_; item < count; item += kThreads) {
        int32_t rest = item;
        const int32_t piece = params_.by_pieces.take(rest);
        const int32_t column = params_.by_columns.take(rest);
        const uint32_t at = to + lines_[rest].row + columns_[column].row + piece * kPieceBytes;
        alignas(16) T values[kChannels];
        *reinterpret_cast<uint4*>(values) = hopper::load_shared<uint4>(at);
        hopper::store_shared(at, to_matrix_piece(values), true);
      }
    }
  }

 private:
  // Negative outside of the source.
  __device__ __forceinline__ int32_t coordinate(int axis, int32_t first, int32_t row, int32_t unit) const {
    const TapParts& taps = params_.taps[axis];
    const int64_t at = static_cast<int64_t>(first + row - unit * taps.length) * taps.step + base_[axis] +
                       unit * taps.stride * taps.dilation;
    return at >= 0 && at < params_.source.size[axis] ? static_cast<int32_t>(at) : -1;
  }
  // Coordinates along the width one by one, from an even one on; some belong to no row.
  __device__ __forceinline__ int32_t pair_coordinate(int32_t first, int32_t i, int32_t& row) const {
    const TapParts& taps = params_.taps[2];
    const int32_t least = first * taps.step + base_[2];
    const int32_t at = (least & ~1) + i;
    for (int32_t unit = 0; unit < taps.units; ++unit) {
      const int32_t from = at - least - unit * taps.stride * taps.dilation;
      const int32_t in_unit = from / taps.step;
      if (from >= 0 && in_unit * taps.step == from && in_unit < taps.length) row = unit * taps.length + in_unit;
    }
    return at >= 0 && at < params_.source.size[2] ? at : -1;
  }

  __device__ __forceinline__ void copy(int64_t channel, int32_t channels, uint32_t to) const {
    const int32_t count = params_.lines * params_.columns * params_.pieces;
    const T* const data = params_.source.data + channel;
    for (int32_t item = thread_; item < count; item += kThreads) {
      int32_t rest = item;
      const int32_t piece = params_.by_pieces.take(rest);
      const int32_t column = params_.by_columns.take(rest);
      const TablePlace line = lines_[rest];
      const TablePlace place = columns_[column];
      const int64_t offset = line.offset + place.offset;
      const bool exists = offset >= 0 && piece * kChannels < channels;
      async_copy<kPieceBytes>(to + line.row + place.row + piece * kPieceBytes,
                              exists ? data + offset + piece * kChannels : params_.source.data,
                              exists ? kPieceBytes : 0);
    }
  }

  // What a thread gathers at once: a piece, or the words of two neighbours along the width that are two pieces.
  template <LoadWay kWay>
  struct Words {
    static constexpr bool kPairs = kWay == LoadWay::kWidthPairs;
    static constexpr int kCount = kPairs ? kChannels : 4;
    uint32_t word[kCount];

    __device__ __forceinline__ void read(const T* from, int64_t stride, int32_t left) {
      if constexpr (kPairs) {
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
          word[c] = c < left ? __ldg(reinterpret_cast<const uint32_t*>(from + c * stride)) : 0;
        }
      } else if constexpr (kWay == LoadWay::kPieces) {
        const uint4 piece = left > 0 ? __ldg(reinterpret_cast<const uint4*>(from)) : uint4{0, 0, 0, 0};
        word[0] = piece.x;
        word[1] = piece.y;
        word[2] = piece.z;
        word[3] = piece.w;
      } else if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          word[c] = c < left ? __ldg(reinterpret_cast<const uint32_t*>(from + c * stride)) : 0;
        }
      } else {
        const auto* const halves = reinterpret_cast<const uint16_t*>(from);
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const uint32_t low = 2 * c < left ? __ldg(halves + 2 * c * stride) : 0;
          const uint32_t high = 2 * c + 1 < left ? __ldg(halves + (2 * c + 1) * stride) : 0;
          word[c] = low | high << 16;
        }
      }
    }
    // As PyTorch's threshold_backward: a NaN in the output lets the gradient through.
    __device__ __forceinline__ void apply(const Words& mask) {
#pragma unroll
      for (int c = 0; c < kCount; ++c) {
        T values[4 / sizeof(T)];
        *reinterpret_cast<uint32_t*>(values) = mask.word[c];
        if constexpr (sizeof(T) == 4) {
          if (to_accumulator(values[0]) <= 0) word[c] = 0;
        } else {
          if (to_accumulator(values[0]) <= 0) word[c] &= 0xFFFF0000;
          if (to_accumulator(values[1]) <= 0) word[c] &= 0x0000FFFF;
        }
      }
    }
  };

  template <LoadWay kWay, bool kMasked>
  __device__ __forceinline__ void gather(int64_t channel, int32_t channels, uint32_t to) const {
    constexpr bool kPairs = kWay == LoadWay::kWidthPairs;
    constexpr bool kAlongWidth = kPairs || kWay == LoadWay::kWidth;
    constexpr int kGathered = kMasked ? kInFlight / 2 : kInFlight;
    const int32_t count = params_.lines * (kPairs ? params_.columns / 2 : params_.columns) * params_.pieces;
    const int64_t stride = params_.source.stride.c;
    const int64_t mask_stride = params_.source.mask_stride.c;
    const T* const data = params_.source.data + channel * stride;
    const T* const mask = params_.source.mask + channel * mask_stride;
    for (int32_t item = thread_; item < count; item += kGathered * kThreads) {
      Words<kWay> words[kGathered];
      Words<kWay> masks[kMasked ? kGathered : 1];
      uint32_t at[kGathered];
      uint32_t next[kPairs ? kGathered : 1];
#pragma unroll
      for (int i = 0; i < kGathered; ++i) {
        int32_t rest = item + i * kThreads;
        const bool is = rest < count;
        if (!is) rest = 0;
        int32_t piece;
        int32_t column;
        if constexpr (kAlongWidth) {
          column = params_.by_columns.take(rest);
          piece = params_.by_pieces.take(rest);
        } else {
          piece = params_.by_pieces.take(rest);
          column = params_.by_columns.take(rest);
        }
        if constexpr (kPairs) column *= 2;
        const TablePlace line = lines_[rest];
        const TablePlace place = columns_[column];
        const int64_t offset = line.offset + place.offset;
        const int32_t left = is && offset >= 0 ? channels - piece * kChannels : 0;
        words[i].read(left > 0 ? data + offset + piece * kChannels * stride : data, stride, left);
        if constexpr (kMasked) {
          const int64_t mask_offset = mask_lines_[rest] + mask_columns_[column] + piece * kChannels * mask_stride;
          masks[i].read(left > 0 ? mask + mask_offset : mask, mask_stride, left);
        }
        const uint32_t first = to + line.row + piece * kPieceBytes;
        at[i] = is && place.row >= 0 ? first + place.row : kNobody;
        if constexpr (kPairs) {
          const int32_t row = columns_[column + 1].row;
          next[i] = is && row >= 0 ? first + row : kNobody;
        }
      }
#pragma unroll
      for (int i = 0; i < kGathered; ++i) {
        if constexpr (kMasked) words[i].apply(masks[i]);
        const uint32_t (&word)[Words<kWay>::kCount] = words[i].word;
        if constexpr (kPairs) {
          hopper::store_shared(
              at[i], uint4{pair<0x5410>(word, 0), pair<0x5410>(word, 2), pair<0x5410>(word, 4), pair<0x5410>(word, 6)},
              at[i] != kNobody);
          hopper::store_shared(
              next[i],
              uint4{pair<0x7632>(word, 0), pair<0x7632>(word, 2), pair<0x7632>(word, 4), pair<0x7632>(word, 6)},
              next[i] != kNobody);
        } else {
          uint4 piece{word[0], word[1], word[2], word[3]};
          if constexpr (sizeof(T) == 4) {
            if (params_.rounds) piece = rounded(piece);
          }
          hopper::store_shared(at[i], piece, at[i] != kNobody);
        }
      }
    }
  }

  // The lower halves of two neighbouring channels' words, or the upper ones.
  template <uint32_t kSelector, int kCount>
  __device__ __forceinline__ static uint32_t pair(const uint32_t (&word)[kCount], int c) {
    return __byte_perm(word[c], word[c + 1], kSelector);
  }
  __device__ __forceinline__ static uint4 rounded(const uint4& piece) {
    return {rounded_to_tf32(__uint_as_float(piece.x)), rounded_to_tf32(__uint_as_float(piece.y)),
            rounded_to_tf32(__uint_as_float(piece.z)), rounded_to_tf32(__uint_as_float(piece.w))};
  }

  static constexpr uint32_t kNobody = 0xFFFFFFFF;

  const BoxSource<T>& params_;
  int32_t thread_;
  TablePlace* lines_;
  TablePlace* columns_;
  int64_t* mask_lines_;
  int64_t* mask_columns_;
  int32_t base_[3];  // coordinate of position 0 for the part's first tap
};

}  // namespace convt3d::mma
