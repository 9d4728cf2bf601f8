// Raw rows: channels' rows along the width are copied to shared memory as they lie in the source and, when they have
// arrived, transposed to positions' rows of channels: word by word here, as matrices in matrices.cuh.
#pragma once

#include "device/mask.cuh"
#include "device/numeric.cuh"
#include "device/ptx/async_copy.cuh"
#include "engines/mma/tile/lines.cuh"

namespace convt3d::mma {

template <typename T, int kThreads>
class RawRowLoader : public TileLines<T, kThreads> {
 protected:
  using Lines = TileLines<T, kThreads>;
  using Lines::fixed_;
  using Lines::kChannels;
  using Lines::kElement;
  using Lines::params_;
  using Lines::thread_;

 public:
  using Lines::Lines;

 protected:
  __device__ __forceinline__ void copy_rows(const LoadStage& stage) const {
    const Source<T>& source = params_.source;
#pragma unroll 1
    for (int i = 0; i < (source.mask == nullptr ? 1 : 2); ++i) {
      const T* const data = i == 0 ? source.data : source.mask;
      const Strides& stride = i == 0 ? source.stride : source.mask_stride;
      const uint32_t table = i == 0 ? stage.table : this->mask_table(stage);
      const uint32_t to = stage.raw + (i == 0 ? 0 : static_cast<uint32_t>(params_.shape.raw.bytes));
      if (params_.shape.raw.begin == RowsBegin::kWhole) {
        copy_rows<true>(stage, data, stride, table, to);
      } else {
        copy_rows<false>(stage, data, stride, table, to);
      }
    }
  }

  __device__ __forceinline__ void transpose_words(const LoadStage& stage) const {
    const bool masked = params_.source.mask != nullptr;
    if constexpr (sizeof(T) == 4) {
      if (params_.shape.raw.begin == RowsBegin::kWhole) {
        return masked ? transpose<true, true>(stage) : transpose<true, false>(stage);
      }
    }
    masked ? transpose<false, true>(stage) : transpose<false, false>(stage);
  }

  // What a stage reads along the width.
  struct Run {
    int64_t least;   // first coordinate that belongs to the tile
    int64_t first;   // first coordinate that is in the source, too
    int64_t end;     // one past the last coordinate in tile and source; there is none where `end` is not past `first`
    int32_t before;  // coordinates before the first that belong to the tile, and are zeros
  };
  __device__ __forceinline__ Run run_of(const LoadBox& box) const {
    const RawRows& raw = params_.shape.raw;
    const int64_t least = this->origin(2, box) + raw.least;
    const int64_t first = least > 0 ? least : 0;
    const int64_t end = least + raw.span;
    const int64_t before = first - least;
    return {least, first, end < params_.source.size[2] ? end : params_.source.size[2],
            static_cast<int32_t>(before < raw.span ? before : raw.span)};
  }
  __device__ __forceinline__ int64_t run_address(const T* data, const Strides& stride, int64_t channel,
                                                 int64_t first) const {
    return Lines::address_of(data + channel * stride.c + first);
  }

 private:
  // Whole rows that are read as matrices have zeros for the coordinates before the source, copied like the rest.
  static constexpr bool kZerosBefore = sizeof(T) == 2;

  // A row that begins between two multiples of 16 bytes is copied from the one before on. Nothing is read past it.
  template <bool kAligned>
  __device__ __forceinline__ void copy_rows(const LoadStage& stage, const T* data, const Strides& stride,
                                            uint32_t table, uint32_t raw_rows) const {
    const RawRows& raw = params_.shape.raw;
    const Run run = run_of(stage.box);
    const uint32_t line_pitch = static_cast<uint32_t>(params_.tile.pieces * raw.item_pitch);
    this->for_each_place([&](int32_t number, int32_t first, int32_t count) {
      const int32_t piece = params_.shape.by_pieces.take(number);
      const int32_t item = number / kChannels;
      uint32_t to = raw_rows + static_cast<uint32_t>(first) * line_pitch +
                    static_cast<uint32_t>(item * raw.item_pitch + number % kChannels * raw.pitch + piece * kPieceBytes);
      const int64_t begin = kAligned ? (kZerosBefore ? run.least : run.first) & ~int64_t{kChannels - 1} : run.first;
      const int64_t left = (run.end - begin) * kElement - piece * kPieceBytes;  // bytes
      const bool in_row = !kAligned || (left > 0 && begin + piece * kChannels >= 0);
      const bool exists = number < stage.channels && run.end > run.first && in_row;
      const int64_t from =
          exists ? run_address(data, stride, stage.first_channel + number, begin) + piece * kPieceBytes : kNowhere;
      const auto left_bytes = static_cast<int32_t>(left < kMostLeft ? left : kMostLeft);
      Lines::template for_each_line<kAligned ? 8 : 4>(table, first, count, [&](const auto& lines, uint32_t) {
#pragma unroll
        for (const LoadLine& line : lines) {
          const int64_t at = from + line.source;
          if constexpr (kAligned) {
            async_copy_from(to, at);
          } else {
            const int32_t exist = left_bytes + static_cast<int32_t>(at & 15);
            async_copy<kPieceBytes>(to, reinterpret_cast<const void*>(at & ~int64_t{15}),
                                    at < 0 ? 0 : static_cast<uint32_t>(max(0, min(exist, kPieceBytes))));
          }
          to += line_pitch;
        }
      });
    });
  }
  static constexpr int64_t kMostLeft = 1 << 20;

  // Raw rows of a piece's channels, from a coordinate on; words of one element or two neighbours.
  template <bool kAligned>
  struct RawPiece {
    static constexpr bool kHalves = sizeof(T) == 2 && !kAligned;
    static constexpr int kRows = kAligned ? 1 : kChannels;
    uint32_t from[kRows];

    // `low`: low bits of the address of the first channel's first element; `step`: bytes from a channel to the next.
    __device__ __forceinline__ RawPiece(uint32_t raw, uint32_t low, uint32_t step, int32_t pitch) {
#pragma unroll
      for (int c = 0; c < kRows; ++c) {
        from[c] = raw + static_cast<uint32_t>(c * pitch) + ((low + static_cast<uint32_t>(c) * step) & 15);
      }
    }
    __device__ __forceinline__ void read(uint32_t bytes, int32_t pitch, uint32_t (&words)[kChannels]) const {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        const uint32_t at = bytes + (kAligned ? from[0] + static_cast<uint32_t>(c * pitch) : from[c % kRows]);
        if constexpr (kHalves) {
          words[c] = hopper::load_shared<uint16_t>(at) | static_cast<uint32_t>(hopper::load_shared<uint16_t>(at + 2))
                                                             << 16;
        } else {
          words[c] = hopper::load_shared<uint32_t>(at);
        }
      }
    }
  };

  // Four lanes are neighbours along the width and have a line's piece of channels, eight of which lie in banks of their
  // own.
  template <bool kAligned, bool kMasked>
  __device__ __forceinline__ void transpose(const LoadStage& stage) const {
    constexpr int kLanes = 4;
    constexpr int kNeighbours = 4 / kElement;
    const Source<T>& source = params_.source;
    const StagedTile& tile = params_.tile;
    const RawRows& raw = params_.shape.raw;
    const Run run = run_of(stage.box);
    const int32_t items = params_.shape.lines * tile.pieces;
    const int32_t column = thread_ % kLanes;
    const uint32_t columns = this->columns_address();
#pragma unroll 1
    for (int32_t item = thread_ / kLanes; item < items; item += kThreads / kLanes) {
      int32_t line = item;
      const int32_t piece = tile.pieces_of_row.take(line);
      const auto words_of_line = hopper::load_shared<uint4>(stage.table + static_cast<uint32_t>(line * kLineBytes));
      const uint32_t to = stage.to + words_of_line.z + static_cast<uint32_t>(piece * kPieceBytes);
      const int64_t channel = stage.first_channel + piece * kChannels;
      const auto rows_of = [&](const T* data, const Strides& stride, uint32_t line_low, uint32_t at) {
        return RawPiece<kAligned>(at + static_cast<uint32_t>(item * raw.item_pitch),
                                  static_cast<uint32_t>(run_address(data, stride, channel, run.first)) + line_low,
                                  static_cast<uint32_t>(stride.c) * kElement, raw.pitch);
      };
      const RawPiece<kAligned> rows = rows_of(source.data, source.stride, words_of_line.x, stage.raw);
      const RawPiece<kAligned> mask_rows =
          kMasked
              ? rows_of(
                    source.mask, source.mask_stride,
                    hopper::load_shared<uint32_t>(this->mask_table(stage) + static_cast<uint32_t>(line * kLineBytes)),
                    stage.raw + static_cast<uint32_t>(raw.bytes))
              : rows;
#pragma unroll 1
      for (int32_t i = column; i < run.before; i += kLanes) store_row(columns, i, to, uint4{0, 0, 0, 0});
#pragma unroll(kMasked ? 1 : 2)
      for (int32_t i = run.before + kNeighbours * column; i < raw.span; i += kNeighbours * kLanes) {
        const auto bytes = static_cast<uint32_t>((i - run.before) * kElement);
        uint32_t words[kChannels];
        rows.read(bytes, raw.pitch, words);
        if constexpr (kMasked) {
          uint32_t masks[kChannels];
          mask_rows.read(bytes, raw.pitch, masks);
#pragma unroll
          for (int c = 0; c < kChannels; ++c) words[c] = masked_word<T>(words[c], masks[c]);
        }
        if constexpr (kNeighbours == 2) {
          store_row(columns, i, to,
                    uint4{both_halves<0x5410>(words, 0), both_halves<0x5410>(words, 2), both_halves<0x5410>(words, 4),
                          both_halves<0x5410>(words, 6)});
          store_row(columns, i + 1, to,
                    uint4{both_halves<0x7632>(words, 0), both_halves<0x7632>(words, 2), both_halves<0x7632>(words, 4),
                          both_halves<0x7632>(words, 6)});
        } else {
          store_row(columns, i, to, uint4{words[0], words[1], words[2], words[3]});
        }
      }
    }
  }

 protected:
  // Stores the tile's piece of the coordinate `i` after the first that is staged, where that has a row.
  __device__ __forceinline__ static void store_row(uint32_t columns, int32_t i, uint32_t to, const uint4& piece) {
    const auto row = hopper::load_shared<uint32_t>(columns + static_cast<uint32_t>(4 * (i + kCoordinatesBefore)));
    hopper::store_shared(to + row, piece, static_cast<int32_t>(row) >= 0);
  }

 private:
  // The lower halves of two neighbouring channels' words, or the upper ones.
  template <uint32_t kSelector, int kCount>
  __device__ __forceinline__ static uint32_t both_halves(const uint32_t (&words)[kCount], int c) {
    return __byte_perm(words[c % kCount], words[(c + 1) % kCount], kSelector);
  }
};

}  // namespace convt3d::mma
