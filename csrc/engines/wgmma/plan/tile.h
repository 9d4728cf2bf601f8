// The positions that a block has at a time, and its work tiles.
// - Positions: those of a tile are numbered with the halo's columns and lines between them, so that one instruction's
//   N columns are neighbours in memory; the columns that fall on the halo are computed and dropped. Where volumes are
//   small, 8 images share a tile, the image counting fastest.
// - Shared zeros: a tile as wide as the input has zeros on both sides of its lines. Those that a line ends with may be
//   those that the next one begins with; behind the last line are as many.
// - Passes: the phases outside M and the tiles of M, each a pass over the resident tile.
// - Work tiles: a tile and a share of its passes; `splits` of them share one tile.
#pragma once

#include <cstdint>
#include <functional>

#include "core/divisor.h"
#include "core/host_device.h"
#include "engines/wgmma/plan/arrangement.h"
#include "engines/wgmma/plan/instructions.h"

namespace convt3d {

// A position of a tile with its halo.
struct WgmmaPosition {
  int32_t d;
  int32_t h;
  int32_t w;
};

struct WgmmaTile {
  WgmmaInstruction instruction;
  int32_t image_log;     // log2 of the images that share a tile
  int32_t size[3];       // positions along each axis
  int32_t halo[3];       // positions along each axis, with the halo; a line's without the zeros of the next one
  int32_t zeros;         // positions behind the last line's
  int32_t count[3];      // of tiles along each axis
  int64_t image_count;   // of tiles along the images
  int32_t second_start;  // first column of the second warpgroup, counted in the tile's positions
  int32_t columns;       // of a warpgroup that can be outputs
  int32_t splits;        // of a tile's passes
  Divisor by_count[3];
  Divisor by_splits;
  Divisor by_lines;  // size[1]
  Divisor by_halo_height;
  Divisor by_halo_width;

  CONVT3D_HOST_DEVICE int32_t halo_positions() const { return halo[0] * halo[1] * halo[2]; }
  CONVT3D_HOST_DEVICE int32_t images() const { return 1 << image_log; }
  CONVT3D_HOST_DEVICE WgmmaPosition at(int32_t number) const {
    WgmmaPosition result;
    result.d = number;
    result.w = by_halo_width.take(result.d);
    result.h = by_halo_height.take(result.d);
    return result;
  }
  CONVT3D_HOST_DEVICE int32_t number_of(const WgmmaPosition& position) const {
    return (position.d * halo[1] + position.h) * halo[2] + position.w;
  }
  CONVT3D_HOST_DEVICE bool is_output(const WgmmaPosition& position) const {
    return position.w < size[2] && position.h < size[1] && position.d < size[0];
  }
  int64_t work_tiles(const WgmmaProduct& product) const {
    return product.groups * image_count * count[0] * count[1] * count[2] * splits;
  }
};

// Where the second warpgroup's columns begin: behind the first one's, which are all full, or with the second half of
// the tile's depths or lines.
enum class WgmmaCut { kNone, kDepth, kHeight };

// Offsets along the depth at which a tile reads nothing of the source: its products there would be zeros.
struct WgmmaUnreadOffsets {
  int32_t front;  // so many of the first ones
  int32_t back;   // and of the last ones

  // Of a tile that begins at a position `first`.
  CONVT3D_HOST_DEVICE WgmmaUnreadOffsets(const WgmmaAxis& depth, const WgmmaTaps& taps, int32_t first, int32_t size)
      : front(0), back(0) {
    const int32_t begin = first * depth.fold;
    const int32_t last = (first + size - 1) * depth.fold;
    while (front < taps.count && last + taps.offset[front] < 0) ++front;
    while (front + back < taps.count && begin + taps.offset[taps.count - 1 - back] >= depth.src_size) ++back;
  }

  CONVT3D_HOST_DEVICE int32_t count() const { return front + back; }
};

// The share of all tiles' offsets along the depth at which something is read.
double read_share(const WgmmaArrangement& arrangement, const WgmmaTile& tile);

// What the search fixes before the extents of a tile.
struct WgmmaTileKind {
  WgmmaInstruction instruction;
  int32_t image_log;
  int32_t splits;
};

// Every tile that may pay.
void visit_tiles(const WgmmaProduct& product, const WgmmaArrangement& arrangement, bool channels_last,
                 WgmmaTileKind kind, const std::function<void(const WgmmaTile&)>& visit);

}  // namespace convt3d
