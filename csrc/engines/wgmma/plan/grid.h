// The blocks of a launch, of which each multiprocessor has one at most, and how they share the work tiles.
#pragma once

#include <cstdint>

#include "engines/wgmma/plan/memory.h"
#include "engines/wgmma/plan/product.h"
#include "engines/wgmma/plan/tile.h"

namespace convt3d {

struct WgmmaGrid {
  uint32_t blocks;
  uint32_t work_tiles;
  uint32_t weight_classes;  // of blocks, by the weights that they keep for all of their work tiles; 0: they keep none
};

WgmmaGrid make_grid(const WgmmaProduct& product, const WgmmaTile& tile, const WgmmaPipelines& pipelines,
                    int multiprocessors);

}  // namespace convt3d
