// Operands that are copied with their channels last before the kernel that reads them, as data: what is copied for
// which boxes. device/channels_last_copy.cuh copies.
//
// All boxes of a call are computed portion by portion, so that what is copied at a time does not grow with the batch:
//
//     copy images 0..3    boxes of images 0..3    copy images 4..7    boxes of images 4..7    ...
//     copy depths 0..9 of image 0    boxes that read them    copy depths 8..17    boxes that read these    ...
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/device_traits.h"
#include "core/operands.h"
#include "core/problem.h"
#include "engines/mma/tile.h"

namespace convt3d::mma {

constexpr int64_t kMostCopiedBytes = int64_t{256} << 20;  // of all copies of a portion

struct DepthRange {
  int64_t first;
  int64_t count;
};
// The depths that boxes read: the b-th along the depth those from b*step + first to b*step + last, where there are any.
struct DepthReach {
  int64_t step;
  int64_t first;
  int64_t last;

  // Of the boxes first_box .. end_box - 1, of so many depths.
  DepthRange of(int64_t first_box, int64_t end_box, int64_t size) const;
};
DepthReach depth_reach(const TileAxis& depth);

// Boxes that are computed at a time: image boxes (of one or several images) with all of their depths, or some depths
// of one image box. Zeros: all boxes.
struct Portions {
  int64_t image_boxes;
  int64_t depth_boxes;
};
struct Portion {
  int64_t first_box;  // boxes are numbered image, depth, height, width
  int64_t end_box;
  int64_t first_image_box;
  int64_t end_image_box;
  int64_t first_depth_box;
  int64_t end_depth_box;
};
// `boxes`: along images, depth, height, width.
int64_t portion_count(const Portions& portions, const std::array<int64_t, 4>& boxes);
Portion portion_at(const Portions& portions, const std::array<int64_t, 4>& boxes, int64_t number);
// Boxes of the first portion, which has as many as any.
int64_t portion_boxes(const Portions& portions, const std::array<int64_t, 4>& boxes);
// "none", "whole", "images" or "depths".
const char* to_name(const Portions& portions, const std::array<int64_t, 4>& boxes);
std::string to_string(const Portions& portions);

struct OperandCopy {
  bool exists;
  bool masked;       // the mask is applied to the copy
  bool transposes;   // strips of positions, else pieces of channels are gathered
  int32_t run_axes;  // from the width on, whose positions are neighbours in memory all together
  bool aligned;      // strips are, those of a depth's beginning where `depths_aligned`
  bool depths_aligned;
  bool vectors;        // all strips of all portions are aligned
  bool quads;          // four neighbouring channels are one load
  bool channels_last;  // of the operand itself
  int64_t groups;
  int32_t channels;  // of a group
  int32_t padded;    // ... in the copy
  Int3 size;         // of the operand
  DepthReach reach;  // of the plan's boxes
  int64_t images;    // of a portion, at most
  int64_t depths;    // ...
  int32_t element_bytes;

  int64_t image_positions() const { return depths * size[1] * size[2]; }
  int64_t bytes() const { return exists ? images * image_positions() * groups * padded * element_bytes : 0; }
};

// `channels`: of a group. Of a slice, whose images have gaps between them, a copy that does not exist: autograd hands
// over slices of the largest tensors of a network, which nobody shall copy.
OperandCopy operand_copy(const OperandTraits& tensor, const OperandTraits& mask, const Int3& size, int64_t groups,
                         int64_t channels, int64_t element_bytes);

// Boxes, in whole.
struct BoxCounts {
  std::array<int64_t, 4> boxes;  // along images, depth, height, width
  int64_t batch;
  int64_t images;  // of a box
  int64_t depth;   // ... positions
};
// Sets what the copies of a portion have, together at most so many bytes, or more for boxes of one depth. False where a
// portion of the boxes would have too many.
bool choose_portions(Portions& portions, std::initializer_list<OperandCopy*> copies, const BoxCounts& counts,
                     int64_t most_bytes);

// What it takes to copy, in all portions: expected, a model.
double copies_ms(const Portions& portions, std::initializer_list<const OperandCopy*> copies,
                 const std::array<int64_t, 4>& boxes, int64_t batch, const DeviceTraits& device);
// Of the launches of a portion's kernel, beside those of the first portion.
double portions_ms(int64_t count);
// Whether a portion's copies are in L2 when they are read.
bool stay_in_l2(std::initializer_list<const OperandCopy*> copies, const DeviceTraits& device);

}  // namespace convt3d::mma
