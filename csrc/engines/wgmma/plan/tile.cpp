#include "engines/wgmma/plan/tile.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <set>

#include "core/integer.h"

namespace convt3d {
namespace {

struct Extents {
  int depth;
  int height;
  int width;
};

// With the halo; even, so that neighbours along the width stay in pairs.
int padded_width(const WgmmaArrangement& arrangement, int image_log, int width) {
  const int halo = width + arrangement.axis[2].reach;
  return image_log > 0 ? halo : static_cast<int>(round_up(halo, 2));
}

std::optional<WgmmaTile> make_tile(const WgmmaProduct& product, const WgmmaArrangement& arrangement, WgmmaTileKind kind,
                                   Extents extents, WgmmaCut cut) {
  WgmmaTile tile{};
  tile.instruction = kind.instruction;
  tile.image_log = kind.image_log;
  tile.splits = kind.splits;
  tile.by_splits = make_divisor(kind.splits);
  const int size[3] = {extents.depth, extents.height, extents.width};
  int64_t tiles = 1;
  for (int i = 0; i < 3; ++i) {
    tile.size[i] = size[i];
    tile.halo[i] = i == 2 ? padded_width(arrangement, kind.image_log, size[i]) : size[i] + arrangement.axis[i].reach;
    tile.count[i] = static_cast<int32_t>(ceil_div(arrangement.axis[i].positions, size[i]));
    tile.by_count[i] = make_divisor(tile.count[i]);
    tiles *= tile.count[i];
  }
  tile.by_lines = make_divisor(tile.size[1]);
  tile.by_halo_height = make_divisor(tile.halo[1]);
  tile.by_halo_width = make_divisor(tile.halo[2]);
  tile.image_count = ceil_div(product.images, tile.images());
  const int depths = cut == WgmmaCut::kDepth ? extents.depth / 2 : extents.depth;
  const int heights = cut == WgmmaCut::kHeight ? extents.height / 2 : extents.height;
  const int64_t columns = (int64_t{(depths - 1) * tile.halo[1] + heights - 1} * tile.halo[2] + extents.width)
                          << kind.image_log;
  tile.second_start = cut == WgmmaCut::kDepth    ? (depths * tile.halo[1] * tile.halo[2]) << kind.image_log
                      : cut == WgmmaCut::kHeight ? (heights * tile.halo[2]) << kind.image_log
                                                 : kind.instruction.n;
  tile.columns = static_cast<int32_t>(std::min<int64_t>(columns, kind.instruction.n));
  if (product.images > INT_MAX || tiles * tile.image_count * product.groups > INT_MAX / kind.splits) {
    return std::nullopt;
  }
  return tile;
}

// The tile's extent along the height that fills `columns` columns, given the other extents.
int fitting_height(const WgmmaArrangement& arrangement, int image_log, int depth, int width, int64_t columns) {
  const int64_t pitch = padded_width(arrangement, image_log, width);
  const int64_t extra = arrangement.axis[1].reach;
  // ((depth - 1) * (height + extra) + height - 1) * pitch + width <= columns
  const int64_t lines = columns < width ? 0 : (columns - width) / pitch + 1;
  const int64_t height = (lines - (depth - 1) * extra) / depth;
  return static_cast<int>(std::min<int64_t>({height, arrangement.axis[1].positions, kWgmmaMaxTile[1]}));
}

// Those of equal parts of the phase grid's width, of which each is the widest of so many parts.
std::set<int> equal_widths(const WgmmaArrangement& arrangement, int image_log) {
  std::set<int> widths;
  const int32_t positions = arrangement.axis[2].positions;
  for (int part = std::min(positions, kWgmmaMaxTile[2]); part >= 1; --part) {
    const int64_t parts = ceil_div(positions, part);
    if (ceil_div(positions, parts) != part) continue;
    const int width = static_cast<int>(round_up(part, image_log > 0 ? 1 : 2));
    if ((width >= 8 || parts == 1) && width <= kWgmmaMaxTile[2]) widths.insert(width);
  }
  return widths;
}

}  // namespace

void visit_tiles(const WgmmaProduct& product, const WgmmaArrangement& arrangement, bool channels_last,
                 WgmmaTileKind kind, const std::function<void(const WgmmaTile&)>& visit) {
  const auto add = [&](int depth, int height, int width, WgmmaCut cut) {
    const std::optional<WgmmaTile> tile = make_tile(product, arrangement, kind, {depth, height, width}, cut);
    if (tile) visit(*tile);
  };
  const auto height_of = [&](int depth, int width, int64_t columns) {
    return fitting_height(arrangement, kind.image_log, depth, width, columns);
  };
  const int64_t columns = kind.instruction.n >> kind.image_log;  // of one warpgroup, of one image
  for (const int width : equal_widths(arrangement, kind.image_log)) {
    for (int depth = 1; depth <= 16 && depth < 2 * arrangement.axis[0].positions; depth *= 2) {
      const int whole = height_of(depth, width, 2 * columns);
      if (whole >= 1) add(depth, whole, width, WgmmaCut::kNone);
      if (depth >= 2) {
        const int half = height_of(depth / 2, width, columns);
        if (half >= 1) add(depth, half, width, WgmmaCut::kDepth);
      } else if (arrangement.height_sets() || (!channels_last && kind.image_log > 0)) {
        const int half = height_of(1, width, columns);
        const int most = std::min<int>(2 * half, arrangement.axis[1].positions) & -2;
        if (most >= 2 && most <= kWgmmaMaxTile[1]) add(1, most, width, WgmmaCut::kHeight);
      }
    }
  }
}

}  // namespace convt3d
