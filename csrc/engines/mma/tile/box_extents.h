// Positions of a box along one axis.
#pragma once

#include <cstdint>
#include <vector>

namespace convt3d::mma {

// Of all numbers of positions, up to `most`, that make as many boxes of an axis of `extent`, the least; and powers of
// two. The largest first.
std::vector<int32_t> box_extents(int64_t extent, int32_t most);

}  // namespace convt3d::mma
