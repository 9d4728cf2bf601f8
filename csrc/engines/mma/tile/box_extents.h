// Positions of a box along one axis.
#pragma once

#include <cstdint>
#include <vector>

namespace convt3d::mma {

// Extents of a box that are worth trying on an axis of `extent` positions, `most` at most, the largest first: for each
// number of boxes the least extent that makes so many, and powers of two.
std::vector<int32_t> box_extents(int64_t extent, int32_t most);

}  // namespace convt3d::mma
