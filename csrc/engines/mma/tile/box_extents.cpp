#include "engines/mma/tile/box_extents.h"

#include <algorithm>

#include "core/integer.h"

namespace convt3d::mma {

std::vector<int32_t> box_extents(int64_t extent, int32_t most) {
  std::vector<int32_t> result;
  const auto largest = static_cast<int32_t>(std::min<int64_t>(extent, most));
  int32_t power = 1;
  while (power * 2 <= largest) power *= 2;
  for (int32_t size = largest; size > 0;) {
    const auto even = static_cast<int32_t>(ceil_div(extent, ceil_div(extent, size)));
    if (even < size && power == size) result.push_back(size);
    result.push_back(even);
    while (power >= even) power /= 2;
    size = std::max(even - 1, power);
  }
  return result;
}

}  // namespace convt3d::mma
