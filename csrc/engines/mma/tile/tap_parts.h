// The taps of a weight gradient along one axis, shared out over blocks. As data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/host_device.h"
#include "core/problem.h"
#include "device/small_quotient.h"

namespace convt3d::mma {

// The taps along one axis, in parts: a block has one part, tap first(part) + j*stride for j < count(part).
struct TapParts {
  int32_t taps;  // taps of all parts
  int32_t step;  // the problem's stride
  int32_t padding;
  int32_t dilation;
  int32_t stride;  // 1, or the distance of taps that read the same residue
  int32_t most;    // taps of a part
  int32_t parts;
  int32_t components;  // polyphase components of grad_output that a part reads, one after another in the tile
  int32_t length;      // rows of a component
  int32_t rows_apart;  // rows from a tap to the next that reads its component

  CONVT3D_HOST_DEVICE int32_t first(int32_t part) const {
    if (stride == 1) return part * most;
    const int32_t before = small_quotient(part, stride);
    return part + before * (most - 1) * stride;
  }
  CONVT3D_HOST_DEVICE int32_t count(int32_t part) const {
    int32_t left = taps - first(part);
    if (left > 0 && stride != 1) left = small_quotient(left + stride - 1, stride);
    return left < 0 ? 0 : left < most ? left : most;
  }
  // Coordinates from position*step to where tap j of a part reads.
  CONVT3D_HOST_DEVICE int32_t offset(int32_t part, int32_t j) const {
    return (first(part) + j * stride) * dilation - padding;
  }
  // Rows from a position's row in the first component to that of tap j.
  CONVT3D_HOST_DEVICE int32_t shift(int32_t j) const {
    if (components == 1) return j * rows_apart;
    const int32_t before = small_quotient(j, components);
    return (j - before * components) * length + before * rows_apart;
  }
  CONVT3D_HOST_DEVICE int32_t rows() const { return components * length; }
  // Coordinates from a position's own to that of tap j.
  CONVT3D_HOST_DEVICE int32_t coordinates(int32_t j) const { return j * stride * dilation; }
};

// The ways to part an axis' taps: all of them, those of one residue at a time, and smaller parts of both.
std::vector<TapParts> tap_parts(const Problem& problem, std::size_t axis);

}  // namespace convt3d::mma
