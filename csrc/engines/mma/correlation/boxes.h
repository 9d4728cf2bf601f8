// Boxes of positions that are worth a search, for one shape of the product.
#pragma once

#include <array>
#include <vector>

#include "engines/mma/correlation/plan.h"

namespace convt3d::mma {

struct BoxCandidate {
  std::array<int32_t, 3> size;
  int32_t images;
  int splits;  // axes that are split, from the depth on
};

// The likeliest first, for a plan's shape, channels of a block and ways to read and to store. `element_bytes`: of the
// destination.
std::vector<BoxCandidate> likely_boxes(const CorrelationPlan& plan, int32_t element_bytes, const DeviceTraits& device,
                                       size_t most);

}  // namespace convt3d::mma
