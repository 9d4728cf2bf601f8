// What moments of accumulators need to know: which of a warpgroup's columns are outputs, and which tile it is.
#pragma once

#include <cstdint>

#include "core/divisor.h"
#include "engines/wgmma/plan/plan.h"

namespace convt3d {

constexpr int kWgmmaOutputWords = 8;  // of 32 columns, of a warpgroup

struct WgmmaOutputs {
  // Bit i of word j of a warpgroup: its column 32 * j + i is no halo, and an output of a tile that ends within the
  // output.
  uint32_t columns[2][kWgmmaOutputWords];
  // Whether the same columns are outputs in all residues of a pass, wherever the tile is.
  bool alike;
  Divisor by_size[3];  // positions of a tile along each axis
};

// Images do not share the tile.
WgmmaOutputs wgmma_outputs(const WgmmaPlan& plan);

}  // namespace convt3d
