// The lines and places of a staged tile (load_shape.h): tables of where lines begin in the source, and the places that
// a thread has of each line.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "device/small_quotient.h"
#include "device/source.cuh"
#include "engines/mma/tile/layouts.h"
#include "engines/mma/tile/load_shape.h"
#include "engines/mma/tile/tile.h"

namespace convt3d::mma {

template <typename T>
struct LoadParams {
  Source<T> source;
  StagedTile tile;
  LoadShape shape;
  LoadWay way;
  int64_t batch;
};

// What a table is made for.
struct LoadBox {
  int64_t image;         // first image
  int64_t first[3];      // coordinates of position 0: components' deltas are added to them
  int32_t component[3];  // component of each split axis, else 0
};

struct LoadStage {
  const LoadBox& box;
  uint32_t table;         // shared address of what make_table() made
  int64_t first_channel;  // channel of the source
  int32_t channels;       // channels that exist from there on; the tile's rows may be longer or shorter
  uint32_t to;            // shared address of the tile
  uint32_t raw;           // shared address of raw rows, or of the mask that is copied
};

// A line of a stage: where its first channel of coordinate 0 of the width is, in bytes, and its first row in the tile.
struct alignas(kLineBytes) LoadLine {
  int64_t source;
  int32_t row;
};
// What is the same of a line in all boxes: bytes and coordinates from the box's first image and its coordinates 0 on.
struct alignas(16) FixedLine {
  int64_t source;
  int64_t mask;
  int32_t row;
  int32_t image;
  int32_t d;
  int32_t h;
};
// What is the same of a place in all boxes.
struct alignas(kFixedPlaceBytes) FixedPlace {
  uint32_t to;  // its piece of channels, or part of one, and above kPieceBits the words of 4 bytes in the tile's line
  int32_t w;    // coordinate from the box's first one on
};
static_assert(sizeof(LoadLine) == kLineBytes && sizeof(FixedLine) == kFixedLineBytes &&
              sizeof(FixedPlace) == kFixedPlaceBytes);

constexpr int kPieceBits = 16;

// Threads that fill a table together.
struct Fillers {
  int32_t thread;
  int32_t count;
};

// The offset of a line that does not exist: whatever a place adds to it, it stays below zero.
constexpr int64_t kNowhere = -(int64_t{1} << 62);

template <typename T, int kThreads>
class TileLines {
 public:
  // `thread` of those that load; `fixed`: shape.fixed_bytes() of shared memory.
  __device__ __forceinline__ TileLines(const LoadParams<T>& params, int32_t thread, unsigned char* fixed)
      : params_(params), thread_(thread), fixed_(fixed) {}

  __device__ __forceinline__ void make_fixed(const Fillers& fillers) const {
    const StagedTile& tile = params_.tile;
    auto* const lines = reinterpret_cast<FixedLine*>(fixed_);
#pragma unroll 1
    for (int32_t i = fillers.thread; i < params_.shape.lines; i += fillers.count) {
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
    auto* const places = reinterpret_cast<FixedPlace*>(lines + params_.shape.lines);
#pragma unroll 1
    for (int32_t i = fillers.thread; i < params_.shape.fixed_places; i += fillers.count) {
      const Place place = place_of(i, false);
      places[i] = {place.to / 4 << kPieceBits | static_cast<uint32_t>(place.piece), place.w};
    }
    const TileAxis& width = tile.axis[2];
    auto* const columns = reinterpret_cast<int32_t*>(places + params_.shape.fixed_places);
#pragma unroll 1
    for (int32_t i = fillers.thread; i < params_.shape.column_entries(); i += fillers.count) {
      columns[i] = -1;
#pragma unroll 1
      for (int32_t component = 0; component < (width.split ? 1 : width.components); ++component) {
        const int32_t from =
            i - kCoordinatesBefore + params_.shape.raw.least - (width.split ? 0 : width.delta[component]);
        const int32_t in_component = small_quotient(max(from, 0), width.step);
        if (from >= 0 && in_component * width.step == from && in_component < width.length)
          columns[i] = (component * width.length + in_component) * tile.pitch;
      }
    }
  }

  // `table`: of shape.table_bytes().
  __device__ __forceinline__ void make_table(const LoadBox& box, unsigned char* table, const Fillers& fillers) const {
    if (fillers.thread >= params_.shape.lines) return;
    const auto* const fixed = reinterpret_cast<const FixedLine*>(fixed_);
    auto* const lines = reinterpret_cast<LoadLine*>(table);
    LoadLine* const mask = lines + params_.shape.lines;
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
    for (int32_t i = fillers.thread; i < params_.shape.lines; i += fillers.count) {
      const FixedLine& line = fixed[i];
      // Outside on either side: no coordinate of a box is 2^31 below zero.
      const bool exists = static_cast<uint32_t>(d) + line.d < static_cast<uint32_t>(params_.source.size[0]) &&
                          static_cast<uint32_t>(h) + line.h < static_cast<uint32_t>(params_.source.size[1]) &&
                          line.image < images;
      lines[i] = {exists ? source_offset + line.source : kNowhere, line.row};
      if (masked) mask[i] = {exists ? mask_offset + line.mask : kNowhere, line.row};
    }
  }

 protected:
  static constexpr int kChannels = 16 / sizeof(T);  // of a piece
  static constexpr int kElement = sizeof(T);

  // A place of the lines that a thread has.
  struct Place {
    uint32_t to;    // bytes in the tile's line
    int32_t piece;  // of channels, or part of one
    int32_t w;      // coordinate in the source, from the box's first one on
  };

  // The source's coordinate of position 0 along an axis of a stage.
  __device__ __forceinline__ int64_t origin(int axis, const LoadBox& box) const {
    const TileAxis& of = params_.tile.axis[axis];
    return box.first[axis] + (of.split ? of.delta[box.component[axis]] : 0);
  }
  // The coordinate of the row `staged` of a stage, from origin() on.
  __device__ __forceinline__ int32_t coordinate(int axis, int32_t staged) const {
    const TileAxis& of = params_.tile.axis[axis];
    if (of.split) return staged * of.step;
    const int32_t component = params_.shape.by_length[axis].quotient(staged);
    return (staged - component * of.length) * of.step + of.delta[component];
  }

  // Neighbouring numbers are pieces of a row or, along the width, neighbours in the source.
  __device__ __forceinline__ Place place_of(int32_t number, bool along_width) const {
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
    // Of a split axis there is one component, and its delta is in the origin.
    const int32_t in_component = params_.shape.by_components.quotient(column);
    const int32_t component = params_.shape.by_components.remainder(column, in_component);
    place.to = static_cast<uint32_t>((component * width.length + in_component) * params_.tile.pitch +
                                     place.piece * params_.shape.part_bytes);
    place.w = in_component * width.step + (width.split ? 0 : width.delta[component]);
    return place;
  }
  // A place as make_fixed() kept it.
  __device__ __forceinline__ Place fixed_place(int32_t number) const {
    const uint2 words = hopper::load_shared<uint2>(
        hopper::shared_address(fixed_) +
        static_cast<uint32_t>(params_.shape.lines * kFixedLineBytes + number * kFixedPlaceBytes));
    return {words.x >> kPieceBits << 2, static_cast<int32_t>(words.x & ((1u << kPieceBits) - 1)),
            static_cast<int32_t>(words.y)};
  }
  // Where make_fixed() kept, of raw rows, the tile's row of each coordinate: kCoordinatesBefore the first, and on.
  __device__ __forceinline__ uint32_t columns_address() const {
    return hopper::shared_address(fixed_) +
           static_cast<uint32_t>(params_.shape.lines * kFixedLineBytes + params_.shape.fixed_places * kFixedPlaceBytes);
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
  // Calls visit(numbers of two places, first line, lines), and in the end maybe with one number.
  template <typename Visit>
  __device__ __forceinline__ void for_each_two_places(Visit&& visit) const {
    int32_t before = -1;
    int32_t lines = 0;
    int32_t last_first = 0;
    for_each_place([&](int32_t number, int32_t first, int32_t count) {
      lines = count;
      last_first = first;
      if (before < 0) {
        before = number;
        return;
      }
      visit(Numbers<2>{{before, number}}, first, count);
      before = -1;
    });
    if (before >= 0) visit(Numbers<1>{{before}}, last_first, lines);
  }
  template <int kCount>
  struct Numbers {
    int32_t of[kCount];
  };

  __device__ __forceinline__ uint32_t mask_table(const LoadStage& stage) const {
    return stage.table + static_cast<uint32_t>(params_.shape.lines * kLineBytes);
  }
  template <int kCount>
  __device__ __forceinline__ static void read_lines(uint32_t at, LoadLine (&lines)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint4 words = hopper::load_shared<uint4>(at + i * kLineBytes);
      lines[i] = {static_cast<int64_t>(static_cast<uint64_t>(words.y) << 32 | words.x), static_cast<int32_t>(words.z)};
    }
  }

  // Calls visit(lines, their address) with kBatch lines of a table at a time, then with fewer: what is read of shared
  // memory for one batch is on its way at once.
  template <int kBatch, typename Visit>
  __device__ __forceinline__ static void for_each_line(uint32_t table, int32_t first, int32_t count, Visit&& visit) {
    uint32_t at = table + static_cast<uint32_t>(first * kLineBytes);
    for_each_batch<kBatch>(count, [&](auto batch) {
      LoadLine lines[decltype(batch)::value];
      read_lines(at, lines);
      visit(lines, at);
      at += decltype(batch)::value * kLineBytes;
    });
  }
  // Calls visit(Count<n>) with kBatch, then with fewer, until it was `count` in all.
  template <int kBatch, typename Visit>
  __device__ __forceinline__ static void for_each_batch(int32_t count, Visit&& visit) {
#pragma unroll 1
    for (; count >= kBatch; count -= kBatch) visit(Count<kBatch>{});
    if constexpr (kBatch > 2) {
#pragma unroll 1
      for (; count >= 2; count -= 2) visit(Count<2>{});
    }
    if constexpr (kBatch > 1) {
      if (count > 0) visit(Count<1>{});
    }
  }
  template <int kValue>
  struct Count {
    static constexpr int value = kValue;
  };

  __device__ __forceinline__ static int64_t address_of(const T* pointer) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer));
  }

  const LoadParams<T>& params_;
  int32_t thread_;
  unsigned char* fixed_;
};

}  // namespace convt3d::mma
