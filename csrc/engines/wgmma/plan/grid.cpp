#include "engines/wgmma/plan/grid.h"

#include <algorithm>

namespace convt3d {

WgmmaGrid make_grid(const WgmmaProduct& product, const WgmmaTile& tile, const WgmmaPipelines& pipelines,
                    int multiprocessors) {
  const int64_t work_tiles = tile.work_tiles(product);
  const int64_t most = std::min<int64_t>(work_tiles, multiprocessors);
  const int64_t classes = tile.splits * product.groups;
  const bool keep = pipelines.resident_weights && classes <= std::min<int64_t>(most, kWgmmaMaxClasses);
  const int64_t blocks = keep ? most / classes * classes : most;
  return {static_cast<uint32_t>(blocks), static_cast<uint32_t>(work_tiles), static_cast<uint32_t>(keep ? classes : 0)};
}

}  // namespace convt3d
