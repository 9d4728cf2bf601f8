// How outputs leave: a consumer warp puts its rows of a pass into staging of its own in shared memory, in the order
// that they have in the output, and hands them over in segments. A segment is a piece of a line of the tile, that is of
// its positions along the width: with a contiguous width [channel][voxel], else [voxel][channel] (a voxel: an output
// position; where images share a tile they count fastest).
// - Boxes: TMA stores the same segment of one or more lines in the background, and clips what lies outside the output.
//   The rows of a box are multiples of 16 bytes. Where the output's strides or its address allow TMA no boxes, threads
//   store the same segments.
// - Threads store any number of contiguous channels.
// - Runs: lines along a contiguous width that are no multiples of 16 bytes. A sector of memory that is written in two
//   parts costs several times its bytes, and each such line begins and ends within one. So a channel's lines are staged
//   as they follow one another in the output, with the alignment they have there, and are stored as one run, by
//   threads: whole sectors together, its ends element by element. A segment is then whole lines, those of both phases
//   of the height if one pass has both.
// - Registers: where images share a tile and the width is contiguous, a fragment of a warp's accumulators holds one
//   position of 8 images, far from each other in memory. Threads store neighbours of the width, which they have: in two
//   fragments, and as sets or in what they staged for themselves of the pass before.
// Segments gather in bursts, so that what a hand-over costs is paid once for several. Of runs, a burst lies within one
// depth.
// store_shape.h makes the segments, and says which way it is; this file's functions make bursts of them, and the marks
// by which a warp finds these.
#pragma once

#include <cassert>
#include <cstdint>

#include "core/divisor.h"
#include "core/host_device.h"
#include "core/one_or_two.h"
#include "engines/wgmma/plan/arrangement.h"
#include "engines/wgmma/plan/problem.h"
#include "engines/wgmma/plan/product.h"
#include "engines/wgmma/plan/tile.h"

namespace convt3d {

constexpr int kWgmmaStripColumns = 16;       // a strip: columns between two points where bursts may change
constexpr int kWgmmaKeptElements = 256;      // of two fragments, by a warp
constexpr int kWgmmaMaxStoredSegments = 64;  // of a warpgroup

// An entry of the table of columns of runs: which of two bursts the column belongs to, how many outputs are missing
// there, and where it lies in its channel's run, in elements.
constexpr int kWgmmaRunOffsetBits = 12;
constexpr int kWgmmaRunMissingBits = 3;
constexpr int kWgmmaRunOutputs = 4;  // of an entry: two neighbouring columns, at most both phases of the width

enum class WgmmaStoreWay : int32_t {
  kBoxes,
  kBoxesByThreads,  // the segments of boxes, where the output allows TMA none
  kThreads,
  kRuns,
  kRegisters,
};
const char* to_string(WgmmaStoreWay way);

// A line of a warpgroup's part of a tile.
struct WgmmaStoredLine {
  int32_t depth;   // counted from the warpgroup's first one
  int32_t height;  // in the depth, counted from the warpgroup's first one there
  int32_t left;    // lines of the depth from this one on
};

// The number, among all of the tile, of the segment that holds a position of the tile (with the halo), or follows it.
// `of`: a store, or the segments that it is made of.
template <typename Segments>
CONVT3D_HOST_DEVICE int32_t wgmma_segment_of(const Segments& of, const WgmmaTile& tile, const WgmmaPosition& position) {
  if (position.d >= tile.size[0]) return tile.size[0] * tile.size[1] * of.line_segments;
  const int32_t lines_before = position.d * tile.size[1] + (position.h < tile.size[1] ? position.h : tile.size[1]);
  const int32_t in_line = position.h >= tile.size[1]   ? 0
                          : position.w >= tile.size[2] ? of.line_segments
                                                       : of.by_columns.quotient(position.w);
  return lines_before * of.line_segments + in_line;
}
// How many positions the pair of neighbours has that begins with a warpgroup's position, where outputs leave from the
// registers; 0 where none does. The first of a pair is even, unless the warpgroup begins with an odd one.
template <typename Segments>
CONVT3D_HOST_DEVICE int32_t wgmma_pair_positions(const Segments& of, const WgmmaTile& tile, int32_t warpgroup,
                                                 int32_t position) {
  const WgmmaPosition first = tile.at(of.start[warpgroup] + position);
  const int32_t odd = first.w & 1;
  if (position >= of.extent || !tile.is_output(first) || (odd == 1 && position > 0)) return 0;
  return odd == 0 && position + 1 < of.extent && first.w + 1 < tile.size[2] ? 2 : 1;
}

// How runs lie in a warp's staging.
struct WgmmaRuns {
  OneOrTwo lines;     // of the output, in a segment: 2 where one pass has both phases of the height
  int32_t line_step;  // bytes from a line to the next, congruent to the output's modulo 16
  bool joined_lines;  // the step is the output's, and a burst is one run
};

// How boxes lie in a warp's staging, and what threads store instead of them, a line at a time.
struct WgmmaBoxes {
  int32_t lines;  // of the tile, in one box, their segments behind one another
  int32_t bytes;  // from one box to the next
};

// What a warp has staging for.
struct WgmmaBursts {
  int32_t pitch;   // bytes from a channel to the next or, where channels are contiguous, from a voxel
  int32_t burst;   // segments
  int32_t halves;  // 2: one burst is filled while the other is still read; 1: a burst holds all segments
  int32_t warp_bytes;
};

// Where bursts begin and end: bit i stands for the i-th strip of a warpgroup.
struct WgmmaMarks {
  uint32_t end[2];   // a burst ends in it, though not the last
  uint32_t open[2];  // a burst ends in it, and the next one begins
};

struct WgmmaSegments;

// One way, and what belongs to that way alone. Its constructor alone fills it; kernels load neighbours at once, so that
// the members lie in their order.
class WgmmaStore {
 public:
  WgmmaStore() = default;
  static WgmmaStore of_boxes(const WgmmaSegments& segments, const WgmmaBursts& bursts, WgmmaBoxes boxes);
  static WgmmaStore by_threads(const WgmmaSegments& segments, const WgmmaBursts& bursts, WgmmaBoxes boxes);
  static WgmmaStore of_runs(const WgmmaSegments& segments, const WgmmaBursts& bursts, WgmmaRuns runs);
  static WgmmaStore from_registers(const WgmmaSegments& segments, const WgmmaBursts& bursts);
  // The same store, of which kernels know where bursts begin and end.
  WgmmaStore with_marks(const WgmmaMarks& of_bursts) const;
  // The same segments, of a store of boxes, where TMA has none for them.
  WgmmaStore boxes_by_threads() const;

  CONVT3D_HOST_DEVICE WgmmaStoreWay way() const { return way_; }
  CONVT3D_HOST_DEVICE bool boxes() const { return way_ == WgmmaStoreWay::kBoxes; }
  CONVT3D_HOST_DEVICE bool registers() const { return way_ == WgmmaStoreWay::kRegisters; }
  CONVT3D_HOST_DEVICE bool runs() const { return way_ == WgmmaStoreWay::kRuns; }
  // Boxes, and what threads store like them.
  CONVT3D_HOST_DEVICE bool in_boxes() const { return !runs() && !registers(); }
  CONVT3D_HOST_DEVICE const WgmmaRuns& as_runs() const {
    expect(runs());
    return runs_;
  }
  CONVT3D_HOST_DEVICE int32_t box_lines() const {
    expect(in_boxes());
    return box_lines_;
  }
  CONVT3D_HOST_DEVICE int32_t box_bytes() const {
    expect(in_boxes());
    return box_bytes_;
  }

  CONVT3D_HOST_DEVICE int32_t pair_positions(const WgmmaTile& tile, int32_t warpgroup, int32_t position) const {
    return wgmma_pair_positions(*this, tile, warpgroup, position);
  }
  CONVT3D_HOST_DEVICE int32_t segment_of(const WgmmaTile& tile, const WgmmaPosition& position) const {
    return wgmma_segment_of(*this, tile, position);
  }
  // The first of a warpgroup's columns that a segment holds.
  CONVT3D_HOST_DEVICE WgmmaPosition first_of(const WgmmaTile& tile, int32_t warpgroup, int32_t segment) const {
    WgmmaPosition result;
    result.d = first_segment[warpgroup] + segment;
    result.w = by_line_segments.take(result.d) * columns;
    result.h = tile.by_lines.take(result.d);
    const int32_t missing = start[warpgroup] - tile.number_of(result);
    if (missing > 0) result.w += missing;
    return result;
  }
  // Among the segments that belong to bursts.
  CONVT3D_HOST_DEVICE int32_t in_bursts(int32_t warpgroup, int32_t segment) const {
    return part[warpgroup] == 0 ? segment - 1 : segment;
  }
  // Where the line of a segment lies, of runs.
  CONVT3D_HOST_DEVICE WgmmaStoredLine line_of(const WgmmaTile& tile, int32_t warpgroup, int32_t segment) const {
    WgmmaStoredLine first;
    first.depth = by_line_segments.quotient(first_segment[warpgroup]);
    first.height = tile.by_lines.take(first.depth);
    WgmmaStoredLine result;
    result.depth = by_line_segments.quotient(first_segment[warpgroup] + segment);
    result.height = tile.by_lines.take(result.depth);
    result.left = tile.size[1] - result.height;
    result.depth -= first.depth;
    if (result.depth == 0) result.height -= first.height;
    return result;
  }
  // How far the segment is at which the next box begins or, of runs, the next burst.
  CONVT3D_HOST_DEVICE int32_t segments_to_next(const WgmmaTile& tile, int32_t warpgroup, int32_t segment) const {
    if (!runs()) {
      const int32_t line = by_line_segments.quotient(segment);
      const bool ends_line = by_line_segments.remainder(segment, line) == line_segments - 1;
      return ends_line ? 1 + (box_lines() - 1) * line_segments : 1;
    }
    if (line_segments > 1) return 1;
    const WgmmaStoredLine line = line_of(tile, warpgroup, segment);
    const int32_t in_burst = burst - by_burst.remainder(line.height, by_burst.quotient(line.height));
    const int32_t left = segments[warpgroup] - segment;
    const int32_t rest = in_burst < line.left ? in_burst : line.left;
    return rest < left ? rest : left;
  }
  // Number of the burst that a segment belongs to.
  CONVT3D_HOST_DEVICE int32_t burst_of(const WgmmaTile& tile, int32_t warpgroup, int32_t segment) const {
    if (!runs()) return by_burst.quotient(in_bursts(warpgroup, segment));
    if (line_segments > 1) return segment;
    const WgmmaStoredLine line = line_of(tile, warpgroup, segment);
    const int32_t in_depth = by_burst.quotient(line.height);
    if (line.depth == 0) return in_depth;
    int32_t first = by_line_segments.quotient(first_segment[warpgroup]);
    const int32_t before = by_burst.quotient(tile.size[1] - tile.by_lines.take(first) + burst - 1);
    return before + (line.depth - 1) * by_burst.quotient(tile.size[1] + burst - 1) + in_depth;
  }
  // Where a warpgroup's segment begins in a warp's staging or, of runs, in each channel's part of it.
  CONVT3D_HOST_DEVICE int32_t segment_offset(const WgmmaTile& tile, int32_t warpgroup, int32_t segment) const {
    if (runs()) {
      const int32_t line = line_of(tile, warpgroup, segment).height;
      return by_burst.remainder(line, by_burst.quotient(line)) * segment_bytes;
    }
    int32_t held = in_bursts(warpgroup, segment);
    held = segment == part[warpgroup] ? halves * burst : by_held_.remainder(held, by_held_.quotient(held));
    const int32_t in_line = by_line_segments.take(held);
    const int32_t box = by_box_lines_.quotient(held);
    return (box * line_segments + in_line) * box_bytes() + by_box_lines_.remainder(held, box) * segment_bytes;
  }

 private:
  WgmmaStore(const WgmmaSegments& segments, const WgmmaBursts& bursts, WgmmaStoreWay way, WgmmaRuns runs,
             WgmmaBoxes boxes);
  CONVT3D_HOST_DEVICE static void expect([[maybe_unused]] bool is) {
#if !defined(__CUDA_ARCH__)
    assert(is);
#endif
  }

  WgmmaStoreWay way_;

 public:
  bool channels_contiguous;  // in the output; else its width is
  bool phase_pairs;          // the phases of the width are neighbouring passes, stored together; from registers alone
  int32_t pitch;             // see WgmmaBursts
  uint32_t swizzle;          // this and the next four: see WgmmaSegments
  int32_t column_bytes;
  int32_t columns;
  int32_t line_segments;

 private:
  WgmmaRuns runs_;

 public:
  int32_t segment_bytes;

 private:
  int32_t box_lines_;
  int32_t box_bytes_;

 public:
  int32_t burst;  // this and the next two: see WgmmaBursts
  int32_t halves;
  int32_t warp_bytes;
  int32_t start[2];  // from here on: see WgmmaSegments
  int32_t extent;
  int32_t strip;
  int32_t segments[2];
  int32_t part[2];
  WgmmaMarks marks;
  // What the functions divide by.
  Divisor by_columns;
  Divisor by_line_segments;
  Divisor by_burst;

 private:
  Divisor by_held_;  // segments of all halves
  Divisor by_box_lines_;

 public:
  int32_t first_segment[2];
};

struct WgmmaStoreShape;

// Without marks, with bursts of `least_burst` segments or, as far as `bytes` of shared memory for all warps allow, of
// more.
WgmmaStore make_store(int element_bytes, const WgmmaArrangement& arrangement, const WgmmaTile& tile,
                      const WgmmaStoreShape& shape, int32_t least_burst, int64_t bytes);
WgmmaMarks make_marks(const WgmmaTile& tile, const WgmmaStore& store);
// Bursts of the warpgroup that has more segments.
int32_t bursts(const WgmmaTile& tile, const WgmmaStore& store);

}  // namespace convt3d
