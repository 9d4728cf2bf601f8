// A box of positions and their neighbours of a source, as it is staged in shared memory: a row a position, some
// channels of it in each row. As data; the loader (load.cuh) fills it.
//
// Positions u of a box find their source at u*step + offset(tap) along each axis (core/phase_map.h). Coordinates with
// the same remainder by `step` are a unit, in which neighbours in u are neighbours. A tap is then a shift by rows, the
// same for all u.
#pragma once

#include <array>
#include <cstdint>

#include "core/divisor.h"
#include "core/phase_map.h"

namespace convt3d::mma {

constexpr int kMostAxisTaps = 32;
constexpr int kPieceBytes = 16;
constexpr int kStepBytes = 32;  // of K, which one product takes

struct TileAxis {
  int32_t source_size;
  int32_t box;     // positions u of a block
  int32_t step;    // row r of unit i is at (first u + r)*step + delta[i]
  int32_t length;  // rows of a unit
  int32_t units;
  bool split;  // a stage has the unit of one tap, else all of them
  int32_t delta[kMostAxisTaps];
  int32_t shift[kMostAxisTaps];  // of tap k: its row for u is the row of u in the first unit of its stage, plus this

  CONVT3D_HOST_DEVICE int32_t staged() const { return split ? length : units * length; }  // rows of a stage
  CONVT3D_HOST_DEVICE int32_t rows() const { return units * length; }
  CONVT3D_HOST_DEVICE int32_t stages() const { return split ? units : 1; }
};

// Which axis follows the width where a box's positions are numbered; the others follow in the order height, depth,
// images.
enum class BoxOrder : int { kHeight, kDepth, kImages };

struct BoxPlace {
  int32_t image;
  int32_t d;
  int32_t h;
};

// Numbers of the rows along the width of a box.
struct BoxRows {
  BoxOrder order;
  int32_t count;
  Divisor first;   // extent of the axis that follows the width
  Divisor second;  // ... of the next

  CONVT3D_HOST_DEVICE BoxPlace place(int32_t row) const {
    const int32_t a = first.take(row);
    const int32_t b = second.take(row);
    if (order == BoxOrder::kHeight) return {row, b, a};
    if (order == BoxOrder::kDepth) return {row, a, b};
    return {a, row, b};
  }
};
BoxRows make_box_rows(BoxOrder order, int32_t images, int32_t depth, int32_t height);

struct StagedTile {
  TileAxis axis[3];
  int32_t images;
  int32_t pieces;     // of a row, whole steps of K
  int32_t pitch;      // bytes from a row to the next
  int32_t stride[4];  // rows from an image, a depth, a height, a width to the next
  int32_t rows;       // in shared memory
  int32_t conflicts;  // of reads of eight neighbouring positions, in 256 of a box
  Divisor staged[3];  // rows of a stage along each axis
  Divisor pieces_of_row;

  CONVT3D_HOST_DEVICE int32_t bytes() const { return rows * pitch; }
  CONVT3D_HOST_DEVICE int32_t staged_rows() const {
    return images * axis[0].staged() * axis[1].staged() * axis[2].staged();
  }
};

// False where an axis has too many taps, or taps too far apart.
bool make_tile_axis(const AxisMap& map, int32_t box, bool split, TileAxis& axis);

// `pieces`: 16 bytes of channels each, in a row. Padding is chosen without regard to it.
StagedTile make_tile(const std::array<TileAxis, 3>& axis, int32_t images, int32_t pieces,
                     BoxOrder order = BoxOrder::kHeight);
void set_pieces(StagedTile& tile, int32_t pieces);

}  // namespace convt3d::mma
