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

// How lines of tiles follow one another in shared memory.
struct Lines {
  const WgmmaArrangement& arrangement;
  int image_log;
  bool share_zeros;

  // From a line to the next: positions with the halo, but for zeros that the next line begins with, where they are
  // shared; even, so that neighbours along the width stay in pairs.
  int pitch(int width) const {
    const WgmmaAxis& axis = arrangement.axis[2];
    int padded = width + axis.reach;
    // All that a line leaves out is past the input, and what is read instead is before it.
    if (share_zeros) padded = std::min(padded, std::max({width, axis.src_size - axis.low, padded + axis.low}));
    return image_log > 0 ? padded : static_cast<int>(round_up(padded, 2));
  }
};

// Whether lines of tiles of a width may share zeros, and are shorter then.
bool may_share_zeros(const WgmmaArrangement& arrangement, int image_log, int width) {
  const WgmmaAxis& axis = arrangement.axis[2];
  return image_log == 0 && width >= axis.positions && axis.fold == 1 && !arrangement.phase_halos &&
         Lines{arrangement, image_log, true}.pitch(width) < width + axis.reach;
}

std::optional<WgmmaTile> make_tile(const WgmmaProduct& product, WgmmaTileKind kind, const Lines& lines, Extents extents,
                                   WgmmaCut cut) {
  const WgmmaArrangement& arrangement = lines.arrangement;
  WgmmaTile tile{};
  tile.instruction = kind.instruction;
  tile.image_log = kind.image_log;
  tile.splits = kind.splits;
  tile.by_splits = make_divisor(kind.splits);
  const int size[3] = {extents.depth, extents.height, extents.width};
  int64_t tiles = 1;
  for (int i = 0; i < 3; ++i) {
    tile.size[i] = size[i];
    tile.halo[i] = i == 2 ? lines.pitch(size[i]) : size[i] + arrangement.axis[i].reach;
    tile.count[i] = static_cast<int32_t>(ceil_div(arrangement.axis[i].positions, size[i]));
    tile.by_count[i] = make_divisor(tile.count[i]);
    tiles *= tile.count[i];
  }
  tile.zeros = std::max(0, size[2] + arrangement.axis[2].reach - tile.halo[2]);
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
int fitting_height(const Lines& shape, int depth, int width, int64_t columns) {
  const int64_t pitch = shape.pitch(width);
  const int64_t extra = shape.arrangement.axis[1].reach;
  // ((depth - 1) * (height + extra) + height - 1) * pitch + width <= columns
  const int64_t lines = columns < width ? 0 : (columns - width) / pitch + 1;
  const int64_t height = (lines - (depth - 1) * extra) / depth;
  return static_cast<int>(std::min<int64_t>({height, shape.arrangement.axis[1].positions, kWgmmaMaxTile[1]}));
}

// Widths of tiles that share the phase grid's width evenly: for each number of tiles the least that suffices.
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

double read_share(const WgmmaArrangement& arrangement, const WgmmaTile& tile) {
  const WgmmaAxis& depth = arrangement.axis[0];
  int64_t all = 0;
  int64_t unread = 0;
  for (int outer = 0; outer < depth.outer; ++outer) {
    const WgmmaTaps& taps = depth.taps[outer];
    const auto unread_of = [&](int32_t index) {
      return WgmmaUnreadOffsets(depth, taps, index * tile.size[0], tile.size[0]).count();
    };
    all += int64_t{taps.count} * tile.count[0];
    // Tiles in between read at all offsets.
    int32_t first = 0;
    for (int32_t more; first < tile.count[0] && (more = unread_of(first)) > 0; ++first) unread += more;
    int32_t last = tile.count[0];
    for (int32_t more; last > first && (more = unread_of(last - 1)) > 0; --last) unread += more;
  }
  return all == 0 ? 1 : 1 - static_cast<double>(unread) / static_cast<double>(all);
}

void visit_tiles(const WgmmaProduct& product, const WgmmaArrangement& arrangement, bool channels_last,
                 WgmmaTileKind kind, const std::function<void(const WgmmaTile&)>& visit) {
  const int64_t columns = kind.instruction.n >> kind.image_log;  // of one warpgroup, of one image
  const auto of_width = [&](int width, bool share_zeros) {
    const Lines lines{arrangement, kind.image_log, share_zeros};
    const auto add = [&](int depth, int height, WgmmaCut cut) {
      const std::optional<WgmmaTile> tile = make_tile(product, kind, lines, {depth, height, width}, cut);
      if (tile) visit(*tile);
    };
    const auto height_of = [&](int depth, int64_t most) { return fitting_height(lines, depth, width, most); };
    for (int depth = 1; depth <= 16 && depth < 2 * arrangement.axis[0].positions; depth *= 2) {
      const int whole = height_of(depth, 2 * columns);
      if (whole >= 1) add(depth, whole, WgmmaCut::kNone);
      if (depth >= 2) {
        const int half = height_of(depth / 2, columns);
        if (half >= 1) add(depth, half, WgmmaCut::kDepth);
      } else if (arrangement.height_sets() || (!channels_last && kind.image_log > 0)) {
        const int half = height_of(1, columns);
        const int most = std::min<int>(2 * half, arrangement.axis[1].positions) & -2;
        if (most >= 2 && most <= kWgmmaMaxTile[1]) add(1, most, WgmmaCut::kHeight);
      }
    }
  };
  for (const int width : equal_widths(arrangement, kind.image_log)) {
    of_width(width, false);
    if (may_share_zeros(arrangement, kind.image_log, width)) of_width(width, true);
  }
}

}  // namespace convt3d
