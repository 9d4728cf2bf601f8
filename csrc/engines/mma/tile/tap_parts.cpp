#include "engines/mma/tile/tap_parts.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "core/integer.h"
#include "engines/mma/tile/tile.h"

namespace convt3d::mma {

std::vector<TapParts> tap_parts(const Problem& problem, std::size_t axis) {
  TapParts base{};
  base.taps = static_cast<int32_t>(problem.kernel_size[axis]);
  base.step = static_cast<int32_t>(problem.stride[axis]);
  base.padding = static_cast<int32_t>(problem.padding[axis]);
  base.dilation = static_cast<int32_t>(problem.dilation[axis]);
  const int32_t residue_stride = base.step / std::gcd(base.step, base.dilation);
  std::vector<TapParts> result;
  if (problem.kernel_size[axis] + problem.stride[axis] > kMostSmall) return result;
  const auto add = [&](int32_t stride, int32_t most) {
    for (const TapParts& other : result) {
      if (other.stride == stride && other.most == most) return;
    }
    TapParts parts = base;
    parts.stride = stride;
    parts.most = most;
    const int32_t longest = static_cast<int32_t>(ceil_div(base.taps, stride));
    parts.parts = static_cast<int32_t>(std::min(base.taps, stride) * ceil_div(longest, most));
    parts.components = stride == 1 ? std::min(most, residue_stride) : 1;
    if (parts.components > kMostAxisTaps) return;
    const int64_t apart = int64_t{parts.components} * stride * base.dilation / base.step;
    if (apart > INT32_MAX) return;
    parts.rows_apart = static_cast<int32_t>(apart);
    result.push_back(parts);
  };
  const int32_t of_residue = static_cast<int32_t>(ceil_div(base.taps, residue_stride));
  add(1, base.taps);
  if (residue_stride > 1) add(of_residue > 1 ? residue_stride : 1, of_residue);
  for (const int32_t count : {2, 3, 4}) {
    if (base.taps > count) add(1, static_cast<int32_t>(ceil_div(base.taps, count)));
  }
  if (base.taps > 4) {
    add(1, 4);
    add(1, 2);
  }
  add(1, 1);
  return result;
}

}  // namespace convt3d::mma
