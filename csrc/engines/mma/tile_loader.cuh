// Fills a staged tile (tile.h) from a source: channels of neighbouring positions, zeros outside of the source and past
// the channels. kThreads threads do it, the same ones for all tiles of a block, and share the pieces as load_shape.h
// says:
//
//     make_fixed();                      // once
//     (the loading threads meet)
//     make_table(box, table);            // of each box or, of split axes, of each stage
//     (the loading threads meet)
//     load(stage);                       // begins copies, which are not committed; the rest is in place
//     (the thread's copies have arrived; of raw rows the loading threads meet)
//     settle(stage);                     // what is left to do: rounding, or the transposition of raw rows
//     (whoever reads the tile is told)
//
// Tables are of one stage each: what is loaded meanwhile has another.
#pragma once

#include "device/matrix_element.cuh"
#include "device/ptx/async_copy.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/source.cuh"
#include "engines/mma/layouts.h"
#include "engines/mma/load_shape.h"
#include "engines/mma/tile.h"

namespace convt3d::mma {

template <typename T>
struct LoadParams {
  Source<T> source;
  StagedTile tile;
  LoadShape shape;
  LoadWay way;
  int64_t batch;
  bool rounds;  // float32 enters as TF32, rounded
};

// What a table is made for.
struct LoadBox {
  int64_t image;     // first
  int64_t first[3];  // coordinates of position 0: units' deltas are added to them
  int32_t unit[3];   // of each split axis, else 0
};

struct LoadStage {
  const LoadBox& box;
  uint32_t table;         // shared address of what make_table() made
  int64_t first_channel;  // of the source
  int32_t channels;       // that exist from there on; the tile's rows may be longer or shorter
  uint32_t to;            // shared address of the tile
  uint32_t raw;           // ... of raw rows
};

// A line of a stage: where its first channel of coordinate 0 of the width is, in bytes, and its first row in the tile.
struct alignas(kLineBytes) LoadLine {
  int64_t source;
  int32_t row;
};
// ... of any box, from its first image and its coordinates 0 on; in bytes and in coordinates.
struct alignas(16) FixedLine {
  int64_t source;
  int64_t mask;
  int32_t row;
  int32_t image;
  int32_t d;
  int32_t h;
};
static_assert(sizeof(LoadLine) == kLineBytes && sizeof(FixedLine) == kFixedLineBytes);

// Added to whatever else is known of a place, it stays below zero.
constexpr int64_t kNowhere = -(int64_t{1} << 62);

template <typename T, int kThreads>
class TileLoader {
  static constexpr int kChannels = kPieceChannels<T>;
  static constexpr int kElement = sizeof(T);

 public:
  // `thread` of those that load; `fixed`: shape.fixed_bytes() of shared memory.
  __device__ __forceinline__ TileLoader(const LoadParams<T>& params, int32_t thread, unsigned char* fixed)
      : params_(params), thread_(thread), fixed_(fixed) {}

  __device__ __forceinline__ void make_fixed() const {
    const StagedTile& tile = params_.tile;
    auto* const lines = reinterpret_cast<FixedLine*>(fixed_);
#pragma unroll 1
    for (int32_t i = thread_; i < params_.shape.lines; i += kThreads) {
      int32_t image = i;
      const int32_t staged_h = tile.staged[1].take(image);
      const int32_t staged_d = tile.staged[0].take(image);
      const int32_t h = coordinate(1, staged_h);
      const int32_t d = coordinate(0, staged_d);
      const auto offset = [&](const Strides& stride) {
        return (image * stride.n + d * stride.d + h * stride.h) * kElement;
      };
      lines[i] = {offset(params_.source.stride),
                  offset(params_.source.mask_stride),
                  (image * tile.stride[0] + staged_d * tile.stride[1] + staged_h * tile.stride[2]) * tile.pitch,
                  image,
                  d,
                  h};
    }
    const TileAxis& width = tile.axis[2];
    auto* const columns = reinterpret_cast<int32_t*>(lines + params_.shape.lines);
#pragma unroll 1
    for (int32_t i = thread_; i < params_.shape.column_entries(); i += kThreads) {
      columns[i] = -1;
#pragma unroll 1
      for (int32_t unit = 0; unit < (width.split ? 1 : width.units); ++unit) {
        const int32_t from = i - 1 + params_.shape.raw.least - (width.split ? 0 : width.delta[unit]);
        const int32_t in_unit = from / width.step;
        if (from >= 0 && in_unit * width.step == from && in_unit < width.length)
          columns[i] = (unit * width.length + in_unit) * tile.pitch;
      }
    }
  }

  // `table`: of shape.table_bytes().
  __device__ __forceinline__ void make_table(const LoadBox& box, unsigned char* table) const {
    if (thread_ >= params_.shape.lines) return;
    const auto* const fixed = reinterpret_cast<const FixedLine*>(fixed_);
    auto* const lines = reinterpret_cast<LoadLine*>(table);
    auto* const mask = reinterpret_cast<int64_t*>(table + params_.shape.lines * kLineBytes);
    const bool masked = params_.source.mask != nullptr;
    const int64_t d = origin(0, box);
    const int64_t h = origin(1, box);
    const auto offset = [&](const Strides& stride) {
      return (box.image * stride.n + d * stride.d + h * stride.h) * kElement;
    };
    const int64_t source_offset = offset(params_.source.stride);
    const int64_t mask_offset = masked ? offset(params_.source.mask_stride) : 0;
    const auto images = static_cast<int32_t>(min(params_.batch - box.image, int64_t{params_.tile.images}));
#pragma unroll 1
    for (int32_t i = thread_; i < params_.shape.lines; i += kThreads) {
      const FixedLine& line = fixed[i];
      // Outside on either side: no coordinate of a box is 2^31 below zero.
      const bool exists = static_cast<uint32_t>(d) + line.d < static_cast<uint32_t>(params_.source.size[0]) &&
                          static_cast<uint32_t>(h) + line.h < static_cast<uint32_t>(params_.source.size[1]) &&
                          line.image < images;
      lines[i] = {exists ? source_offset + line.source : kNowhere, line.row};
      if (masked) mask[i] = exists ? mask_offset + line.mask : kNowhere;
    }
  }

  // Whether there is anything left to do for copies that have arrived, for all threads alike.
  __device__ __forceinline__ bool settles() const {
    return params_.way == LoadWay::kRows || (sizeof(T) == 4 && params_.rounds && params_.way == LoadWay::kCopy);
  }

  __device__ __forceinline__ void load(const LoadStage& stage) const {
    const bool masked = params_.source.mask != nullptr;
    switch (params_.way) {
      case LoadWay::kCopy:
        return copy(stage);
      case LoadWay::kPieces:
        return gather<true, true>(stage);
      case LoadWay::kRows:
        if (params_.shape.raw.aligned) {
          return masked ? copy_rows<true, true>(stage) : copy_rows<true, false>(stage);
        }
        return masked ? copy_rows<false, true>(stage) : copy_rows<false, false>(stage);
      default:
        return masked ? gather<false, true>(stage) : gather<false, false>(stage);
    }
  }

  // Of the copies of this thread or, of raw rows, of all loading threads, which have arrived.
  __device__ __forceinline__ void settle(const LoadStage& stage) const {
    const bool masked = params_.source.mask != nullptr;
    if (params_.way == LoadWay::kRows) {
      if (params_.shape.raw.aligned) {
        return masked ? transpose<true, true>(stage) : transpose<true, false>(stage);
      }
      return masked ? transpose<false, true>(stage) : transpose<false, false>(stage);
    }
    if constexpr (sizeof(T) == 4) {
      if (params_.rounds && params_.way == LoadWay::kCopy) round_copied(stage);
    }
  }

 private:
  // A place of the lines that a thread has: its row and its piece in the tile, its coordinate in the source.
  struct Place {
    int64_t w;
    int32_t row;
    int32_t piece;
    bool exists;  // in the source's width
  };

  // Of position 0 along an axis of a stage.
  __device__ __forceinline__ int64_t origin(int axis, const LoadBox& box) const {
    const TileAxis& of = params_.tile.axis[axis];
    return box.first[axis] + (of.split ? of.delta[box.unit[axis]] : 0);
  }
  // From there, of the row `staged` of a stage.
  __device__ __forceinline__ int32_t coordinate(int axis, int32_t staged) const {
    const TileAxis& of = params_.tile.axis[axis];
    if (of.split) return staged * of.step;
    const int32_t unit = params_.shape.by_length[axis].quotient(staged);
    return (staged - unit * of.length) * of.step + of.delta[unit];
  }

  // Neighbouring numbers are pieces of a row or, along the width, neighbours in the source.
  __device__ __forceinline__ Place place_of(const LoadBox& box, int32_t number, bool along_width) const {
    const TileAxis& width = params_.tile.axis[2];
    Place place;
    int32_t column;
    if (along_width) {
      column = params_.shape.by_columns.take(number);
      place.piece = number;
    } else {
      place.piece = params_.shape.by_pieces.take(number);
      column = number;
    }
    // Of a split axis there is one unit, and its delta is in the origin.
    const int32_t in_unit = params_.shape.by_units.quotient(column);
    const int32_t unit = params_.shape.by_units.remainder(column, in_unit);
    place.row = unit * width.length + in_unit;
    place.w = origin(2, box) + in_unit * width.step + (width.split ? 0 : width.delta[unit]);
    place.exists = place.w >= 0 && place.w < params_.source.size[2];
    return place;
  }

  // Calls visit(place's number, first line, lines) for what this thread has.
  template <typename Visit>
  __device__ __forceinline__ void for_each_place(Visit&& visit) const {
    const LoadShape& shape = params_.shape;
    int32_t group = thread_;
    int32_t number = shape.by_at_once.take(group);
    const int32_t first = group * shape.each;
    const int32_t count = min(shape.each, shape.lines - first);
    if (group >= shape.groups || count <= 0) return;
#pragma unroll 1
    for (; number < shape.places; number += shape.at_once) visit(number, first, count);
  }

  // Calls visit(lines, mask's) with kBatch lines at a time, then fewer: what is read of shared memory for one
  // batch is on its way at once.
  template <int kBatch, bool kMasked, typename Visit>
  __device__ __forceinline__ void for_each_line(const LoadStage& stage, int32_t first, int32_t count,
                                                Visit&& visit) const {
    uint32_t at = stage.table + static_cast<uint32_t>(first * kLineBytes);
    uint32_t mask = stage.table + static_cast<uint32_t>(params_.shape.lines * kLineBytes + first * kMaskLineBytes);
    const auto some = [&](auto batch) {
      constexpr int kCount = decltype(batch)::value;
      LoadLine lines[kCount];
      int64_t masks[kCount] = {};
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const uint4 words = hopper::load_shared<uint4>(at + i * kLineBytes);
        lines[i] = {static_cast<int64_t>(static_cast<uint64_t>(words.y) << 32 | words.x),
                    static_cast<int32_t>(words.z)};
        if constexpr (kMasked) {
          const uint2 bits = hopper::load_shared<uint2>(mask + i * kMaskLineBytes);
          masks[i] = static_cast<int64_t>(static_cast<uint64_t>(bits.y) << 32 | bits.x);
        }
      }
      visit(lines, masks);
      at += kCount * kLineBytes;
      mask += kCount * kMaskLineBytes;
    };
#pragma unroll 1
    for (; count >= kBatch; count -= kBatch) some(Count<kBatch>{});
    if constexpr (kBatch > 2) {
#pragma unroll 1
      for (; count >= 2; count -= 2) some(Count<2>{});
    }
    if constexpr (kBatch > 1) {
      if (count > 0) some(Count<1>{});
    }
  }
  template <int kValue>
  struct Count {
    static constexpr int value = kValue;
  };

  __device__ __forceinline__ static int64_t address_of(const T* pointer) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer));
  }

  __device__ __forceinline__ void copy(const LoadStage& stage) const {
    const Source<T>& source = params_.source;
    for_each_place([&](int32_t number, int32_t first, int32_t count) {
      const Place place = place_of(stage.box, number, false);
      const int32_t channel = place.piece * kChannels;
      const bool exists = place.exists && channel < stage.channels;
      const int64_t from =
          exists ? address_of(source.data + stage.first_channel + channel + place.w * source.stride.w) : kNowhere;
      const uint32_t to = stage.to + static_cast<uint32_t>(place.row * params_.tile.pitch + place.piece * kPieceBytes);
      for_each_line<8, false>(stage, first, count, [&](const auto& lines, const auto&) {
#pragma unroll
        for (const LoadLine& line : lines) async_copy_from(to + static_cast<uint32_t>(line.row), from + line.source);
      });
    });
  }

  __device__ __forceinline__ void round_copied(const LoadStage& stage) const {
    for_each_place([&](int32_t number, int32_t first, int32_t count) {
      const Place place = place_of(stage.box, number, false);
      const uint32_t to = stage.to + static_cast<uint32_t>(place.row * params_.tile.pitch + place.piece * kPieceBytes);
      for_each_line<4, false>(stage, first, count, [&](const auto& lines, const auto&) {
        constexpr int kCount = sizeof(lines) / sizeof(lines[0]);
        alignas(16) T values[kCount][kChannels];
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          *reinterpret_cast<uint4*>(values[i]) = hopper::load_shared<uint4>(to + static_cast<uint32_t>(lines[i].row));
        }
#pragma unroll
        for (int i = 0; i < kCount; ++i)
          hopper::store_shared(to + static_cast<uint32_t>(lines[i].row), to_matrix_piece<T>(values[i]), true);
      });
    });
  }

  // Of raw rows: what a stage reads along the width.
  struct Run {
    int64_t first;   // coordinate that is in the source
    int64_t end;     // ... one past them; none are left where it is not past the first
    int32_t before;  // coordinates before the first that belong to the tile, and are zeros
  };
  __device__ __forceinline__ Run run_of(const LoadBox& box) const {
    const RawRows& raw = params_.shape.raw;
    const int64_t least = origin(2, box) + raw.least;
    const int64_t first = least > 0 ? least : 0;
    const int64_t end = least + raw.span;
    const int64_t before = first - least;
    return {first, end < params_.source.size[2] ? end : params_.source.size[2],
            static_cast<int32_t>(before < raw.span ? before : raw.span)};
  }
  __device__ __forceinline__ int64_t run_address(const T* data, const Strides& stride, int64_t channel,
                                                 int64_t first) const {
    return address_of(data + channel * stride.c + first);
  }

  // A row that begins between two multiples of 16 bytes is copied from the one before on. Nothing is read past it.
  template <bool kAligned, bool kMasked>
  __device__ __forceinline__ void copy_rows(const LoadStage& stage) const {
    const Source<T>& source = params_.source;
    const RawRows& raw = params_.shape.raw;
    const Run run = run_of(stage.box);
    const uint32_t line_pitch = static_cast<uint32_t>(params_.tile.pieces * raw.item_pitch);
    for_each_place([&](int32_t number, int32_t first, int32_t count) {
      const int32_t piece = params_.shape.by_pieces.take(number);
      const int32_t item = number / kChannels;
      uint32_t to = stage.raw + static_cast<uint32_t>(first) * line_pitch +
                    static_cast<uint32_t>(item * raw.item_pitch + number % kChannels * raw.pitch + piece * kPieceBytes);
      const int64_t begin = kAligned ? run.first & ~int64_t{kChannels - 1} : run.first;
      const int64_t left = (run.end - begin) * kElement - piece * kPieceBytes;  // bytes
      const bool exists = number < stage.channels && run.end > run.first && (!kAligned || left > 0);
      const auto address = [&](const T* data, const Strides& stride) {
        return exists ? run_address(data, stride, stage.first_channel + number, begin) + piece * kPieceBytes : kNowhere;
      };
      const int64_t from = address(source.data, source.stride);
      const int64_t mask = kMasked ? address(source.mask, source.mask_stride) : 0;
      const auto left_bytes = static_cast<int32_t>(left < kMostLeft ? left : kMostLeft);
      const auto copy_one = [&](uint32_t to_one, int64_t at) {
        if constexpr (kAligned) {
          async_copy_from(to_one, at);
        } else {
          const int32_t exist = left_bytes + static_cast<int32_t>(at & 15);
          async_copy<kPieceBytes>(to_one, reinterpret_cast<const void*>(at & ~int64_t{15}),
                                  at < 0 ? 0 : static_cast<uint32_t>(max(0, min(exist, kPieceBytes))));
        }
      };
      for_each_line<kMasked || !kAligned ? 4 : 8, kMasked>(
          stage, first, count, [&](const auto& lines, const auto& masks) {
#pragma unroll
            for (int i = 0; i < static_cast<int>(sizeof(lines) / sizeof(lines[0])); ++i) {
              copy_one(to, from + lines[i].source);
              if constexpr (kMasked) copy_one(to + static_cast<uint32_t>(raw.bytes), mask + masks[i]);
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

    // `low`: of the address of the first channel's first element; `step`: from a channel to the next.
    __device__ __forceinline__ RawPiece(uint32_t raw, uint32_t low, uint32_t step, int32_t pitch, bool back) {
#pragma unroll
      for (int c = 0; c < kRows; ++c) {
        from[c] = raw + static_cast<uint32_t>(c * pitch) + ((low + static_cast<uint32_t>(c) * step) & 15) -
                  (back ? kElement : 0);
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
    // Words begin at even elements.
    const bool back = kAligned && sizeof(T) == 2 && run.first % 2 != 0;
    const int32_t begin = run.before - (back ? 1 : 0);
    const int32_t items = params_.shape.lines * tile.pieces;
    const int32_t column = thread_ % kLanes;
    const uint32_t columns = hopper::shared_address(fixed_) + params_.shape.lines * kFixedLineBytes;
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
                                  static_cast<uint32_t>(stride.c) * kElement, raw.pitch, back);
      };
      const RawPiece<kAligned> rows = rows_of(source.data, source.stride, words_of_line.x, stage.raw);
      const RawPiece<kAligned> mask_rows =
          kMasked
              ? rows_of(
                    source.mask, source.mask_stride,
                    hopper::load_shared<uint32_t>(
                        stage.table + static_cast<uint32_t>(params_.shape.lines * kLineBytes + line * kMaskLineBytes)),
                    stage.raw + static_cast<uint32_t>(raw.bytes))
              : rows;
#pragma unroll 1
      for (int32_t i = column; i < run.before; i += kLanes) store_row(columns, i, to, uint4{0, 0, 0, 0});
#pragma unroll(kMasked ? 1 : 2)
      for (int32_t i = begin + kNeighbours * column; i < raw.span; i += kNeighbours * kLanes) {
        const auto bytes = static_cast<uint32_t>((i - begin) * kElement);
        uint32_t words[kChannels];
        rows.read(bytes, raw.pitch, words);
        if constexpr (kMasked) {
          uint32_t masks[kChannels];
          mask_rows.read(bytes, raw.pitch, masks);
#pragma unroll
          for (int c = 0; c < kChannels; ++c) words[c] = masked_word(words[c], masks[c]);
        }
        if constexpr (kNeighbours == 2) {
          store_row(
              columns, i, to,
              uint4{pair<0x5410>(words, 0), pair<0x5410>(words, 2), pair<0x5410>(words, 4), pair<0x5410>(words, 6)});
          store_row(
              columns, i + 1, to,
              uint4{pair<0x7632>(words, 0), pair<0x7632>(words, 2), pair<0x7632>(words, 4), pair<0x7632>(words, 6)});
        } else {
          alignas(16) T values[kChannels];
          *reinterpret_cast<uint4*>(values) = uint4{words[0], words[1], words[2], words[3]};
          store_row(columns, i, to,
                    params_.rounds ? to_matrix_piece<T>(values) : uint4{words[0], words[1], words[2], words[3]});
        }
      }
    }
  }

  // Of the coordinate `i` after the first that is staged, where that has a row.
  __device__ __forceinline__ static void store_row(uint32_t columns, int32_t i, uint32_t to, const uint4& piece) {
    const auto row = hopper::load_shared<uint32_t>(columns + static_cast<uint32_t>(4 * (i + 1)));
    hopper::store_shared(to + row, piece, static_cast<int32_t>(row) >= 0);
  }

  // As PyTorch's threshold_backward: a NaN in the output lets the gradient through.
  __device__ __forceinline__ static uint32_t masked_word(uint32_t word, uint32_t mask) {
    T values[kElement == 4 ? 1 : 2];
    *reinterpret_cast<uint32_t*>(values) = mask;
    if constexpr (kElement == 4) {
      return to_accumulator(values[0]) <= 0 ? 0 : word;
    } else {
      if (to_accumulator(values[0]) <= 0) word &= 0xFFFF0000;
      return to_accumulator(values[1]) <= 0 ? word & 0x0000FFFF : word;
    }
  }
  // The lower halves of two neighbouring channels' words, or the upper ones.
  template <uint32_t kSelector, int kCount>
  __device__ __forceinline__ static uint32_t pair(const uint32_t (&words)[kCount], int c) {
    return __byte_perm(words[c % kCount], words[(c + 1) % kCount], kSelector);
  }

  // Through registers: a piece.
  struct Piece {
    alignas(16) T value[kChannels];

    // `left` channels exist.
    template <bool kWhole>
    __device__ __forceinline__ void read(const T* from, int64_t stride, int32_t left) {
      *reinterpret_cast<uint4*>(value) = uint4{0, 0, 0, 0};
      if constexpr (kWhole) {
        if (left > 0) *reinterpret_cast<uint4*>(value) = __ldg(reinterpret_cast<const uint4*>(from));
      } else {
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
          if (c < left) value[c] = __ldg(from + c * stride);
        }
      }
    }
    // As PyTorch's threshold_backward: a NaN in the output lets the gradient through.
    __device__ __forceinline__ void apply(const Piece& mask) {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        if (to_accumulator(mask.value[c]) <= 0) value[c] = from_accumulator<T>(Accumulator<T>(0));
      }
    }
  };

  // `kWhole`: pieces are read as they are, else element by element.
  template <bool kWhole, bool kMasked>
  __device__ __forceinline__ void gather(const LoadStage& stage) const {
    const bool along_width = !kWhole && params_.way == LoadWay::kWidth;
    const Source<T>& source = params_.source;
    for_each_place([&](int32_t number, int32_t first, int32_t count) {
      const Place place = place_of(stage.box, number, along_width);
      const int32_t channel = place.piece * kChannels;
      const int32_t left = place.exists ? stage.channels - channel : 0;
      const auto address = [&](const T* data, const Strides& stride) {
        return left > 0 ? address_of(data + (stage.first_channel + channel) * stride.c + place.w * stride.w) : kNowhere;
      };
      const int64_t from = address(source.data, source.stride);
      const int64_t mask = kMasked ? address(source.mask, source.mask_stride) : 0;
      const uint32_t to = stage.to + static_cast<uint32_t>(place.row * params_.tile.pitch + place.piece * kPieceBytes);
      for_each_line<kWhole    ? 4
                    : kMasked ? 1
                              : 2,
                    kMasked>(stage, first, count, [&](const auto& lines, const auto& masks) {
        constexpr int kCount = sizeof(lines) / sizeof(lines[0]);
        Piece pieces[kCount];
        [[maybe_unused]] Piece of_mask[kCount];
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          const int64_t at = from + lines[i].source;
          pieces[i].template read<kWhole>(reinterpret_cast<const T*>(at), source.stride.c, at >= 0 ? left : 0);
          if constexpr (kMasked) {
            const int64_t at_mask = mask + masks[i];
            of_mask[i].template read<kWhole>(reinterpret_cast<const T*>(at_mask), source.mask_stride.c,
                                             at_mask >= 0 ? left : 0);
          }
        }
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          if constexpr (kMasked) pieces[i].apply(of_mask[i]);
          const uint4 piece = sizeof(T) == 4 && params_.rounds ? to_matrix_piece<T>(pieces[i].value)
                                                               : *reinterpret_cast<const uint4*>(pieces[i].value);
          hopper::store_shared(to + static_cast<uint32_t>(lines[i].row), piece, true);
        }
      });
    });
  }

  const LoadParams<T>& params_;
  int32_t thread_;
  unsigned char* fixed_;
};

}  // namespace convt3d::mma
