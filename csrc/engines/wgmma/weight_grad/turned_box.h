// Boxes of input positions for products whose operand is turned, block by block.
#pragma once

#include <cstdint>
#include <vector>

#include "core/problem.h"

namespace convt3d {

// A box, and the block of it that becomes rows of K: all images of the box, and positions whose number along each axis
// divides the box's.
struct TurnedBox {
  int32_t images;
  int32_t extent[3];
  int32_t block[3];
  double waste;  // steps of K in all boxes, over as few as there could be
};

// Those that waste the least, and some that waste little more.
std::vector<TurnedBox> turned_boxes(const Problem& problem);

// Extents worth trying on an axis, the largest first.
std::vector<int32_t> turned_extents(int64_t size, int32_t most);

}  // namespace convt3d
