// How the outputs of a tile are cut into segments, and what is known of each way to store them before the bursts are.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "core/divisor.h"
#include "engines/wgmma/plan/arrangement.h"
#include "engines/wgmma/plan/problem.h"
#include "engines/wgmma/plan/product.h"
#include "engines/wgmma/plan/store.h"
#include "engines/wgmma/plan/tile.h"

namespace convt3d {

struct WgmmaSegments {
  bool channels_contiguous;  // in the output; else its width is
  bool phase_pairs;          // the phases of the width are neighbouring passes, stored together; from registers alone
  uint32_t swizzle;          // mask of device/swizzle.h; 0: none
  int32_t column_bytes;      // from a column of a segment to the next
  int32_t columns;           // of a whole segment
  int32_t line_segments;     // segments of a line
  int32_t segment_bytes;     // of runs: of each channel
  int32_t start[2];          // each warpgroup's first column, counted in the tile's positions
  int32_t extent;            // positions of a warpgroup
  int32_t strip;             // positions that a strip holds
  int32_t segments[2];       // of each warpgroup; from registers none
  int32_t first_segment[2];  // of each warpgroup, among all of the tile
  // Where the warpgroups share a segment, which then is no box, threads store each one's part when all else has left:
  // it has staging of its own past the bursts and belongs to none. Number of the segment, or -1.
  int32_t part[2];
  Divisor by_columns;
  Divisor by_line_segments;

  bool has_part() const { return part[0] >= 0 || part[1] >= 0; }
};

// A store before its bursts: its segments, and what belongs to its way alone.
struct WgmmaStoreShape {
  // Boxes or, where there are none, segments that threads store.
  struct Rows {
    bool boxes;
    int32_t box_lines;  // that can be one box, at most
    int32_t pitch;      // from a row of the staging to the next
  };
  // How outputs leave from the registers.
  struct Kept {
    int32_t warp_bytes;  // that a warp keeps of a pass until the next
  };
  WgmmaSegments segments;
  std::variant<Rows, WgmmaRuns, Kept> way;
  int32_t least_burst;  // segments
};

// How outputs leave that are dense and begin at a multiple of 16 bytes; nothing where the engine cannot store them.
std::optional<WgmmaStoreShape> make_store_shape(const WgmmaProblem& problem, int element_bytes, bool channels_last,
                                                const WgmmaProduct& product, const WgmmaArrangement& arrangement,
                                                const WgmmaTile& tile);

// Bytes from a channel of a run of so many to the next.
int32_t run_pitch(int64_t bytes);
// Whether `burst` lines can be a burst of a run: no strip of columns has parts of three.
bool run_burst_fits(const WgmmaTile& tile, const WgmmaSegments& segments, int element_bytes, int32_t burst);

}  // namespace convt3d
