// How tiles of the input come to shared memory, as far as the plan decides it: the boxes of a contiguous width.
// Channels that are contiguous need no shape: a box of the copy engine is the tile.
#pragma once

#include "core/problem.h"
#include "engines/wgmma/plan/plan.h"

namespace convt3d {

constexpr int64_t kMostBoxExtent = 256;  // of a box of the copy engine, along one axis

// Each leaves the plan without its boxes where the tile, which is given, has none.
// Boxes of 16 bytes' worth of channels, which begin at a multiple of 16 bytes along the width.
void shape_boxes(const Problem& problem, int element_bytes, HaloPlan& plan);
// Boxes of 16 bytes' worth of channels of a few images, each with its whole planes, height x width.
void shape_image_boxes(const Problem& problem, int element_bytes, HaloPlan& plan);
// Rows of neighbouring positions, as the input has them: a tile's width, or parts of whole rows of the input.
void shape_position_rows(const Problem& problem, int element_bytes, HaloPlan& plan);

}  // namespace convt3d
