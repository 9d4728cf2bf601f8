// How the threads that fill a staged tile (tile.h) share its pieces. As data; loader.cuh does it.
//
// A *line* is an image, a depth and a height of a stage. A *place* of a line is a piece of channels of one position, or
// a part of one, or, of raw rows and channel rows, a piece of one channel's row. A thread has one place after another,
// and of each some lines: where a line begins is read from a table, all else of a piece is the same along the lines.
#pragma once

#include <cstdint>

#include "core/divisor.h"
#include "core/host_device.h"
#include "engines/mma/tile/layouts.h"
#include "engines/mma/tile/tile.h"

namespace convt3d::mma {

constexpr int32_t kLineBytes = 16;       // a line in the table of a box
constexpr int32_t kFixedLineBytes = 32;  // what is the same of a line in all boxes
constexpr int32_t kFixedPlaceBytes = 8;  // what is the same of a place in all boxes

// Entries of the table of coordinates that a matrix may reach before the first one that is staged, and past the last.
constexpr int32_t kCoordinatesBefore = 7;
constexpr int32_t kCoordinatesPast = 14;

// Rows of single channels along the width, as they lie in the source, 16 bytes at a time from an aligned address on.
struct RawRows {
  int32_t least;  // coordinate that is read first, less that of position 0 (of a split axis, and its component's delta)
  int32_t span;   // neighbouring coordinates from there on
  int32_t pieces;      // pieces of 16 bytes that are copied of a row
  int32_t pitch;       // bytes from a channel's row to the next
  int32_t item_pitch;  // from a line's piece of channels to the next
  int64_t bytes;       // raw rows of a stage; a mask's are as many
  RowsBegin begin;
  bool matrices;  // eight channels' pieces are matrices, which are transposed as such
};

struct LoadShape {
  int32_t threads;
  int32_t lines;
  int32_t columns;     // rows of a stage along the width
  int32_t places;      // of a line
  int32_t iterations;  // in which a thread has one place each
  int32_t at_once;     // places of an iteration
  int32_t groups;      // of threads, which share the lines
  int32_t each;        // lines of a group
  Divisor by_at_once;  // of threads
  int32_t part_bytes;  // of channels that are copied at once: a piece's, or fewer
  Divisor by_pieces;   // of a row: of channels, or their parts; of raw rows and channel rows, of the width
  Divisor by_columns;
  Divisor by_components;  // of the width
  Divisor by_length[2];   // of depth and height
  Divisor by_lines;
  RawRows raw;
  int64_t mask_bytes;    // a stage's mask, where it is copied as it is: it lies like the tile
  int32_t fixed_places;  // places of which is kept what is the same in all boxes

  CONVT3D_HOST_DEVICE int32_t table_bytes(bool masked) const { return lines * kLineBytes * (masked ? 2 : 1); }
  // Entries of the table of coordinates, which only raw rows have: the tile's row of each coordinate from
  // kCoordinatesBefore the first on, below zero where it has none.
  CONVT3D_HOST_DEVICE int32_t column_entries() const {
    return raw.bytes == 0 ? 0 : kCoordinatesBefore + raw.span + kCoordinatesPast;
  }
  // Bytes of what is copied beside the tile.
  CONVT3D_HOST_DEVICE int64_t raw_bytes(bool masked) const { return raw.bytes * (masked ? 2 : 1) + mask_bytes; }
  // Bytes of what is the same for all boxes.
  CONVT3D_HOST_DEVICE int32_t fixed_bytes() const {
    return lines * kFixedLineBytes + fixed_places * kFixedPlaceBytes + 4 * column_entries();
  }
};

// Where raw rows begin, a number of which the coordinates of all boxes' first positions are multiples, and the bytes of
// channels that are copied at once (copied_part()).
struct SourceAt {
  RowsBegin begin;
  int32_t multiple;
  int32_t part_bytes;
};
LoadShape make_load_shape(const StagedTile& tile, LoadWay way, int32_t element_bytes, SourceAt source, int32_t threads);

}  // namespace convt3d::mma
