// Which of a warpgroup's columns are outputs, for moments of what it has in its accumulators.
#pragma once

#include <cstdint>

#include "engines/wgmma/plan/plan.h"

namespace convt3d {

constexpr int kWgmmaOutputWords = 8;  // of 32 columns, of a warpgroup

struct WgmmaOutputs {
  // Bit i of word j of a warpgroup: its column 32 * j + i is no halo, and an output of a tile that ends within the
  // output.
  uint32_t columns[2][kWgmmaOutputWords];
  // Whether the same columns are outputs in all residues of a pass, wherever the tile is.
  bool alike;
};

// Images do not share the tile.
WgmmaOutputs wgmma_outputs(const WgmmaPlan& plan);

}  // namespace convt3d
