// How the tensor-core engine's outputs leave: a warp puts its rows of a unit into staging of its own in shared
// memory, in the order that they have in the output, and hands them over in segments. A segment is a piece of a row of
// the tile along the width: with a contiguous width [channel][place], else [place][channel] (a place: an output
// position; where images share a tile they count fastest).
// - Boxes: the copy engine stores the same segment of one or more rows in the background, and clips what lies outside
//   the output. Its rows are multiples of 16 bytes.
// - Threads store any number of contiguous channels.
// - Runs: rows along a contiguous width that are no multiples of 16 bytes. A sector of memory that is written in two
//   parts costs several times its bytes, and each such row begins and ends within one. So a channel's rows are staged
//   as they follow one another in the output, with the alignment they have there, and are stored as one run: whole
//   sectors by the copy engine, its ends by threads. A segment is then whole rows, those of both phases of the height
//   if one unit has both.
// Segments gather in batches, so that the fences and waits of a hand-over are paid once for several. Of runs, a batch
// lies within one depth.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace convt3d {

constexpr int kHaloStagedColumns = 16;      // of an instruction, between two points where batches may change
constexpr int kHaloMaxStoredSegments = 64;  // of a warpgroup

// Of runs, a place in the table of columns: which of two batches it belongs to, how many outputs are missing there, and
// where it lies in its channel's run, in elements.
constexpr int kHaloRunOffsetBits = 12;
constexpr int kHaloRunMissingBits = 3;
constexpr int kHaloRunOutputs = 4;  // of a place: two neighbouring columns, at most both phases of the width

struct HaloStaging {
  bool boxes;
  bool runs;
  int32_t tile[3];        // positions
  int32_t halo[3];        // ... with the halo
  int32_t pitch;          // bytes from a channel to the next or, where channels are contiguous, from a place
  int32_t swizzle;        // which bits of an address are exchanged, see swizzled(); 0: none
  int32_t column_bytes;   // from a column of a segment to the next
  int32_t columns;        // of a whole segment
  int32_t row_segments;   // segments of a row
  int32_t rows;           // of the output, in a segment: 2 where one unit has both phases of the height, else 1
  int32_t row_step;       // of runs: bytes from a row to the next, congruent to the output's modulo 16
  bool joined_rows;       // ... and the very same: a batch is one run
  int32_t segment_bytes;  // of runs: of each channel
  int32_t box_rows;       // of boxes: rows of the tile in one, their segments behind one another
  int32_t box_bytes;      // ... from one to the next
  int32_t batch;          // segments
  int32_t halves;         // 2: one batch is filled while the other is still read; 1: a batch holds all segments
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
  // Of runs: the segment's row in its depth, counted from the warpgroup's first row there.
  CONVT3D_HOST_DEVICE int32_t row_of(int32_t warpgroup, int32_t segment) const {
    const int32_t first = segment_of(start[warpgroup]) / row_segments;
    const int32_t row = segment_of(start[warpgroup]) + segment;
    const int32_t begin = row / row_segments / tile[1] == first / tile[1] ? first % tile[1] : 0;
    return row / row_segments % tile[1] - begin;
  }
  // How far the segment is at which the next box begins or, of runs, the next batch.
  CONVT3D_HOST_DEVICE int32_t step_of(int32_t warpgroup, int32_t segment) const {
    if (!runs) return (segment + 1) % row_segments == 0 ? 1 + (box_rows - 1) * row_segments : 1;
    if (row_segments > 1) return 1;
    const int32_t in_batch = batch - row_of(warpgroup, segment) % batch;
    const int32_t in_depth = tile[1] - (segment_of(start[warpgroup]) + segment) % tile[1];
    const int32_t left = segments[warpgroup] - segment;
    const int32_t rest = in_batch < in_depth ? in_batch : in_depth;
    return rest < left ? rest : left;
  }
  // Number of the batch that a segment belongs to.
  CONVT3D_HOST_DEVICE int32_t batch_of(int32_t warpgroup, int32_t segment) const {
    if (!runs) return batched(warpgroup, segment) / batch;
    if (row_segments > 1) return segment;
    const int32_t first = segment_of(start[warpgroup]);
    const int32_t depth = (first + segment) / tile[1] - first / tile[1];
    const int32_t in_depth = row_of(warpgroup, segment) / batch;
    if (depth == 0) return in_depth;
    const int32_t before = (tile[1] - first % tile[1] + batch - 1) / batch;
    return before + (depth - 1) * ((tile[1] + batch - 1) / batch) + in_depth;
  }
  // Where a warpgroup's segment begins in a warp's staging or, of runs, in each channel's part of it.
  CONVT3D_HOST_DEVICE int32_t segment_offset(int32_t warpgroup, int32_t segment) const {
    if (runs) return row_of(warpgroup, segment) % batch * segment_bytes;
    const int32_t places = halves * batch;
    const int32_t place = segment == part[warpgroup] ? places : batched(warpgroup, segment) % places;
    const int32_t row = place / row_segments;
    const int32_t box = row / box_rows * row_segments + place % row_segments;
    return box * box_bytes + row % box_rows * segment_bytes;
  }
};

struct HaloPlan;
struct Problem;

// The staging of a plan's tile, with the smallest batches and no marks; false where there is none.
bool shape_staging(const Problem& problem, int element_bytes, bool channels_last, HaloPlan& plan);
// Larger batches, as far as `bytes` of shared memory for all warps allow.
void widen_batches(int64_t bytes, int element_bytes, HaloPlan& plan);
// Of the warpgroup that has more segments.
int32_t batches(const HaloStaging& staging);
// `end` and `open`, once the batches are final.
void mark_batches(HaloStaging& staging);

}  // namespace convt3d
