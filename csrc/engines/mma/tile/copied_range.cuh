// What a portion's boxes have copied of an operand.
#pragma once

#include <algorithm>

#include "device/channels_last_copies.h"
#include "engines/mma/tile/portions.h"

namespace convt3d::mma {

// `images`: of a box.
inline CopiedRange copied_range(const OperandCopy& copy, const Portion& portion, int64_t images, int64_t batch) {
  const int64_t first = portion.first_image_box * images;
  return {first, std::min(batch, portion.end_image_box * images) - first,
          copy.reach.of(portion.first_depth_box, portion.end_depth_box, copy.size[0])};
}

}  // namespace convt3d::mma
