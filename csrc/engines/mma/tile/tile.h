// A box of positions and their neighbours of a source, as it is staged in shared memory: a row a position, some
// channels of it in each row. As data; loader.cuh fills it.
//
// Positions u of a box find their source at u*step + offset(tap) along each axis (core/phase_map.h). Coordinates with
// the same remainder by `step` are a (polyphase) component, in which neighbours in u are neighbours. A tap is then a
// shift by rows, the same for all u.
//
// A tile of *channel rows* has a channel's coordinates along the width beside each other instead, all that a box spans:
// [line][channel][coordinate], where a line is an image, a depth and a height. It is for words: elements of 32 bits, or
// two of 16 (width_pairs.h). They are read one by one wherever they lie. A row is then one element, neighbours in u are
// `step` of them apart, and a tap is a shift still.
#pragma once

#include <array>
#include <cstdint>

#include "core/divisor.h"
#include "core/phase_map.h"

namespace convt3d::mma {

constexpr int kMostAxisTaps = 32;
constexpr int kPieceBytes = 16;
constexpr int kStepBytes = 32;  // bytes of channels of a step of K

struct TileAxis {
  int32_t source_size;
  int32_t box;         // positions u of a block
  int32_t step;        // row r of component i is at (first u + r)*step + delta[i]
  int32_t length;      // rows of a component
  int32_t components;  // how many there are; of a split axis one for each tap
  int32_t beyond;      // channel rows: coordinates past those of the taps that are read, too
  bool split;          // a stage has the component of one tap, else all of them
  int32_t delta[kMostAxisTaps];
  int32_t shift[kMostAxisTaps];  // tap k's row for u is the row of u in the first component of its stage, plus shift[k]

  CONVT3D_HOST_DEVICE int32_t staged() const { return split ? length : components * length; }  // rows of a stage
  CONVT3D_HOST_DEVICE int32_t rows() const { return components * length; }
  CONVT3D_HOST_DEVICE int32_t stages() const { return split ? components : 1; }
};

// Which axis follows the width where a box's positions are numbered; the others follow in the order height, depth,
// images.
enum class BoxOrder : int { kHeight, kDepth, kImages };

struct BoxPlace {
  int32_t image;
  int32_t d;
  int32_t h;
};

// How the rows along the width of a box are numbered.
struct BoxRows {
  BoxOrder order;
  int32_t count;
  Divisor first;   // extent of the axis that follows the width
  Divisor second;  // extent of the axis after that

  CONVT3D_HOST_DEVICE BoxPlace place(int32_t row) const {
    const int32_t a = first.take(row);
    const int32_t b = second.take(row);
    if (order == BoxOrder::kHeight) return {row, b, a};
    if (order == BoxOrder::kDepth) return {row, a, b};
    return {a, row, b};
  }
};
BoxRows make_box_rows(BoxOrder order, int32_t images, int32_t depth, int32_t height);

struct ChannelRows {
  int32_t elements;  // copied at once, a piece: 4 where all rows begin at multiples of 16 bytes, or 1; 0: no such rows
  int32_t pieces;    // pieces of a row, from a multiple of `elements` on
  int32_t pitch;     // bytes from a channel's row to the next

  // Elements that are copied before a coordinate.
  CONVT3D_HOST_DEVICE int32_t before(int64_t coordinate) const {
    return elements == 0 ? 0 : static_cast<int32_t>(coordinate & (elements - 1));
  }
};

struct StagedTile {
  TileAxis axis[3];
  int32_t images;
  int32_t pieces;       // pieces of 16 bytes of a row, whole steps of K
  int32_t pitch;        // bytes from a row to the next
  int32_t stride[4];    // rows from an image, a depth, a height, a width to the next
  int32_t rows;         // rows in shared memory
  int32_t conflicts;    // bank conflicts of reads of eight neighbouring positions, in 256 of a box
  int32_t column_step;  // rows from a position to its neighbour along the width
  ChannelRows channel_rows;
  std::array<int32_t, 3> line_padding;  // of channel rows: rows behind all heights, depths, channels
  Divisor staged[3];                    // rows of a stage along each axis
  Divisor pieces_of_row;

  CONVT3D_HOST_DEVICE int32_t bytes() const { return rows * pitch; }
  CONVT3D_HOST_DEVICE bool has_channel_rows() const { return channel_rows.elements > 0; }
  // Bytes from a channel to the next.
  CONVT3D_HOST_DEVICE int32_t channel_step(int32_t element_bytes) const {
    return has_channel_rows() ? channel_rows.pitch : element_bytes;
  }
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

// Accesses to shared memory for each that there would be without conflicts, when a box's positions, numbered along the
// width, then height, depth and images, are read as rows of channels, eight at a time: as matrices of 16 bits, or word
// by word, eight channels of every other one of them.
double read_accesses(const StagedTile& tile, int32_t element_bytes);

// Elements of a channel's row that are copied at once: boxes begin at multiples of them, or there is one.
// `aligned`: all rows begin at a multiple of 16 bytes, and are whole pieces.
int32_t copied_elements(bool aligned, const TileAxis& width, int64_t boxes);
// Most elements that are copied before those of a box.
int32_t elements_before(const TileAxis& width, int32_t elements);
// A tile of channel rows. `before`: most elements that are copied before a box's first; `spare`: each row ends with an
// element that nothing is copied to.
StagedTile make_channel_rows(const std::array<TileAxis, 3>& axis, int32_t images, int32_t pieces, int32_t elements,
                             int32_t before, bool spare);
// Pads the lines of a tile of channel rows, so that reads of eight positions of a narrow box share few banks.
void pad_lines(StagedTile& tile, BoxOrder order);

}  // namespace convt3d::mma
