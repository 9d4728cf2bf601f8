// Which part of copied operands (core/channels_copy.h) serves which boxes. All boxes of a call are computed portion by
// portion, so that what is copied at a time does not grow with the batch:
//
//     copy images 0..3    boxes of images 0..3    copy images 4..7    boxes of images 4..7    ...
//     copy depths 0..9 of image 0    boxes that read them    copy depths 8..17    boxes that read these    ...
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/channels_copy.h"
#include "core/device_traits.h"
#include "engines/mma/tile/tile.h"

namespace convt3d::mma {

// The copy that operand_copy() of core/channels_copy.h describes, or one that does not exist where may_copy() says so.
// `channels`: of a group.
OperandCopy copy_that_may_be(const OperandTraits& tensor, const OperandTraits& mask, int64_t images, const Int3& size,
                             int64_t groups, int64_t channels, int64_t element_bytes);
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

// How many boxes a call has, and how large they are.
struct BoxCounts {
  std::array<int64_t, 4> boxes;  // along images, depth, height, width
  int64_t batch;
  int64_t images;  // images of a box
  int64_t depth;   // positions of a box along the depth
};
// Sets what the copies of a portion have, together at most so many bytes, or more for boxes of one depth. False where a
// portion of the boxes would have too many.
bool choose_portions(Portions& portions, std::initializer_list<OperandCopy*> copies, const BoxCounts& counts,
                     int64_t most_bytes);

// The time that the copies of all portions take: expected, a model.
double copies_ms(const Portions& portions, std::initializer_list<const OperandCopy*> copies,
                 const std::array<int64_t, 4>& boxes, int64_t batch, const DeviceTraits& device);
// The time that the launches of all portions but the first take.
double portions_ms(int64_t count, const DeviceTraits& device);
// Whether a portion's copies are in L2 when they are read.
bool stay_in_l2(std::initializer_list<const OperandCopy*> copies, const DeviceTraits& device);

}  // namespace convt3d::mma
