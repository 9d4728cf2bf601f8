// Positions (n, d, h, w) of a grid, numbered w fastest.
#pragma once

#include <cstdint>

namespace convt3d {

struct Position {
  int64_t n;
  uint32_t d, h, w;
};

struct PositionGrid {
  int64_t batch;
  uint32_t extent[3];

  __device__ __forceinline__ int64_t count() const { return batch * extent[0] * extent[1] * extent[2]; }

  // 64-bit divisions: once per tile.
  __device__ __forceinline__ Position at(int64_t index) const {
    Position position;
    position.w = static_cast<uint32_t>(index % extent[2]);
    index /= extent[2];
    position.h = static_cast<uint32_t>(index % extent[1]);
    index /= extent[1];
    position.d = static_cast<uint32_t>(index % extent[0]);
    position.n = index / extent[0];
    return position;
  }

  // The position `steps` further on, dividing only where an axis overflows.
  __device__ __forceinline__ void advance(Position& position, uint32_t steps) const {
    position.w += steps;
    if (position.w < extent[2]) return;
    position.h += position.w / extent[2];
    position.w %= extent[2];
    if (position.h < extent[1]) return;
    position.d += position.h / extent[1];
    position.h %= extent[1];
    if (position.d < extent[0]) return;
    position.n += position.d / extent[0];
    position.d %= extent[0];
  }
};

}  // namespace convt3d
