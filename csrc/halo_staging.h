// How the tensor-core engine's outputs leave: a warp puts the 16 rows of a unit into staging of its own in shared
// memory, in the order that they have in the output, and hands them over in segments. A segment is a piece of a row of
// the tile along the width: with a contiguous width [channel][place], else [place][channel] (a place: an output
// position; where images share a tile they count fastest).
// - Boxes: the copy engine stores a segment in the background, and clips what lies outside the output. Its rows are
//   multiples of 16 bytes.
// - Threads store what it cannot take: rows along the width of any alignment, any number of contiguous channels.
// Segments gather in batches, so that the fences and waits of a hand-over are paid once for several.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace convt3d {

constexpr int kHaloStagedColumns = 16;      // of an instruction, between two points where batches may change
constexpr int kHaloMaxStoredSegments = 64;  // of a warpgroup

struct HaloStaging {
  bool boxes;
  int32_t tile[3];       // positions
  int32_t halo[3];       // ... with the halo
  int32_t pitch;         // bytes from a channel to the next or, where channels are contiguous, from a place
  int32_t swizzle;       // which bits of an address are exchanged, see swizzled(); 0: none
  int32_t column_bytes;  // from a column of a segment to the next
  int32_t columns;       // of a whole segment
  int32_t row_segments;  // segments of a row
  int32_t segment_bytes;
  int32_t batch;   // segments
  int32_t halves;  // 2: one batch is filled while the other is still read; 1: a batch holds all segments
  int32_t warp_bytes;
  int32_t start[2];     // each warpgroup's first column, counted in the tile's positions
  int32_t extent;       // ... and how many follow
  int32_t step;         // positions that kHaloStagedColumns columns hold
  int32_t segments[2];  // of each warpgroup
  // Where the warpgroups share a segment, which then is no box, threads store each one's part when all else has left:
  // it has a place of its own past the batches and belongs to none. Number of the segment, or -1.
  int32_t part[2];
  // Bit i stands for the i-th kHaloStagedColumns columns, in which ...
  uint32_t end[2];   // a batch ends, though not the last
  uint32_t open[2];  // ... and the next one begins

  // Number of the segment that holds a position of the tile (with the halo), or follows it, among all of the tile.
  CONVT3D_HOST_DEVICE int32_t segment_of(int32_t position) const {
    const int32_t w = position % halo[2];
    const int32_t row = position / halo[2];
    const int32_t h = row % halo[1];
    const int32_t d = row / halo[1];
    if (d >= tile[0]) return tile[0] * tile[1] * row_segments;
    const int32_t rows = d * tile[1] + (h < tile[1] ? h : tile[1]);
    const int32_t in_row = h >= tile[1] ? 0 : w >= tile[2] ? row_segments : w / columns;
    return rows * row_segments + in_row;
  }
  CONVT3D_HOST_DEVICE bool is_output(int32_t position) const {
    return position % halo[2] < tile[2] && position / halo[2] % halo[1] < tile[1] &&
           position / halo[2] / halo[1] < tile[0];
  }
  // Among the segments that belong to batches.
  CONVT3D_HOST_DEVICE int32_t batched(int32_t warpgroup, int32_t segment) const {
    return part[warpgroup] == 0 ? segment - 1 : segment;
  }
  // Where a warpgroup's segment begins in a warp's staging.
  CONVT3D_HOST_DEVICE int32_t segment_offset(int32_t warpgroup, int32_t segment) const {
    const int32_t places = halves * batch;
    return (segment == part[warpgroup] ? places : batched(warpgroup, segment) % places) * segment_bytes;
  }
};

struct HaloPlan;
struct Problem;

// The staging of a plan's tile, with the smallest batches and no marks; false where there is none.
bool shape_staging(const Problem& problem, int element_bytes, bool channels_last, HaloPlan& plan);
// Larger batches, as far as `bytes` of shared memory for all warps allow.
void widen_batches(int64_t bytes, HaloStaging& staging);
// Of the warpgroup that has more.
int32_t batches(const HaloStaging& staging);
// `end` and `open`, once the batches are final.
void mark_batches(HaloStaging& staging);

}  // namespace convt3d
