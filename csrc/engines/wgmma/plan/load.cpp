#include "engines/wgmma/plan/load.h"

#include <algorithm>
#include <optional>

#include "core/integer.h"

namespace convt3d {
namespace {

// Whether the tiles of every phase begin at a multiple of `align` elements in lines of positions: tiles themselves do,
// and a phase's offset may move its tiles along the depth, along the height and, by multiples of what TMA wants a box
// to begin at, along the width. Where lines cross widths, a move along the height must be one of whole lines, and one
// along the width would leave the input's lines.
bool lines_begin_tiles(WgmmaNMajor n_major, const WgmmaArrangement& arrangement, const WgmmaTile& tile) {
  constexpr int32_t kAlign = 8;  // elements of 2 bytes
  const auto all = [](const WgmmaAxis& axis, auto&& allowed) {
    return std::all_of(axis.taps, axis.taps + axis.outer, [&](const WgmmaTaps& taps) { return allowed(taps.low); });
  };
  const auto& axis = arrangement.axis;
  if (!n_major.crosses_widths) return all(axis[2], [](int32_t low) { return low % kAlign == 0; });
  const int32_t line = 1 << n_major.line_log;
  return all(axis[1], [&](int32_t low) { return int64_t{low} * tile.size[2] % line == 0; }) &&
         all(axis[2], [](int32_t low) { return low == 0; });
}

std::optional<WgmmaNMajor> n_major_lines(const WgmmaProblem& problem, int element_bytes, const WgmmaProduct& product,
                                         const WgmmaArrangement& arrangement, const WgmmaTile& tile) {
  if (element_bytes != 2 || tile.image_log > 0 || arrangement.folded() || !tile.instruction.n_major) {
    return std::nullopt;
  }
  // A box would reach into the next group.
  if (product.groups > 1 && product.in_channels % kWgmmaNMajorChannels != 0) return std::nullopt;
  for (const WgmmaAxis& axis : arrangement.axis) {
    if (axis.reach > 0) return std::nullopt;
  }
  const int64_t plane = problem.input_size[1] * problem.input_size[2];
  const bool crosses_widths = tile.size[2] == problem.input_size[2] && tile.count[2] == 1;
  for (const int log : {6, 5, 4}) {
    const int line = 1 << log;
    if (crosses_widths ? plane % line != 0 || tile.size[1] * tile.size[2] % line != 0
                       : tile.size[2] != line || problem.input_size[2] % 8 != 0) {
      continue;
    }
    const WgmmaNMajor n_major{log, crosses_widths};
    if (tile.instruction.n % line != 0 || tile.second_start % line != 0) continue;
    if (lines_begin_tiles(n_major, arrangement, tile)) return n_major;
  }
  return std::nullopt;
}

std::optional<WgmmaLineBoxes> line_boxes(const WgmmaProblem& problem, int element_bytes,
                                         const WgmmaArrangement& arrangement, const WgmmaTile& tile) {
  const int align = 16 / element_bytes;
  if (problem.input_size[2] % align != 0) return std::nullopt;
  const int fold = arrangement.axis[2].fold;  // whose positions a box has all
  int shift = 0;                              // from a box's beginning to the tile's, at most
  for (int index = 0; index < std::min(tile.count[2], align); ++index) {
    for (int outer = 0; outer < arrangement.axis[2].outer; ++outer) {
      const WgmmaTaps& taps = arrangement.axis[2].taps[outer];
      const int first = (index * tile.size[2] + taps.low) * fold + taps.fold;
      shift = std::max(shift, first & (align - 1));
    }
  }
  const int64_t width = round_up(tile.halo[2] * fold + shift, align);
  if (width > 2 * fold * tile.size[2]) return std::nullopt;  // mostly halo: threads are faster
  const int64_t most = kWgmmaBoxBytes / (width * 16);        // lines
  if (most == 0) return std::nullopt;
  WgmmaLineBoxes boxes;
  boxes.width = static_cast<int32_t>(width);
  boxes.lines = static_cast<int32_t>(ceil_div(tile.halo[1], ceil_div(tile.halo[1], most)));
  boxes.depths = static_cast<int32_t>(std::clamp<int64_t>(most / tile.halo[1], 1, tile.halo[0]));
  boxes.in_height = static_cast<int32_t>(ceil_div(tile.halo[1], boxes.lines));
  boxes.in_depth = static_cast<int32_t>(ceil_div(tile.halo[0], boxes.depths));
  return boxes;
}

std::optional<WgmmaPlaneBoxes> plane_boxes(const WgmmaProblem& problem, int element_bytes,
                                           const WgmmaArrangement& arrangement, const WgmmaTile& tile) {
  const int64_t plane = problem.input_size[1] * problem.input_size[2];
  if (plane * element_bytes % 16 != 0 || problem.input_size[2] * element_bytes % 4 != 0 || plane > kMostBoxExtent ||
      tile.count[1] * tile.count[2] > 1 || arrangement.folded()) {
    return std::nullopt;
  }
  const auto& axis = arrangement.axis;
  // All of a plane is in the tile.
  for (const int i : {1, 2}) {
    for (int outer = 0; outer < axis[i].outer; ++outer) {
      const int low = axis[i].taps[outer].low;
      if (low > 0 || low + tile.halo[i] < problem.input_size[i]) return std::nullopt;
    }
  }
  const int64_t elements = plane * tile.halo[0];  // of an image's channel
  // The more images, the fewer of a warp's threads meet in a bank of shared memory.
  for (const int images : {8, 4}) {
    if (images * elements * 16 > kWgmmaBoxBytes) continue;
    const int64_t lanes = 32 / images;  // of an image, in a warp
    WgmmaPlaneBoxes boxes;
    boxes.images = images;
    boxes.words = static_cast<int32_t>(elements * element_bytes / 4);
    boxes.word_entries = static_cast<int32_t>(round_up(boxes.words, kWgmmaWordsInFlight * lanes) + 32 - lanes);
    boxes.zero_entries = static_cast<int32_t>(round_up(tile.halo_positions() - elements, kWgmmaWordsInFlight * lanes));
    boxes.tables = arrangement.phase_halos ? axis[1].outer * axis[2].outer : 1;
    return boxes;
  }
  return std::nullopt;
}

}  // namespace

WgmmaLoad load_of_tile(const WgmmaProblem& problem, int element_bytes, bool channels_last, const WgmmaProduct& product,
                       const WgmmaArrangement& arrangement, const WgmmaTile& tile) {
  if (channels_last) return WgmmaLoad::elements();
  if (tile.image_log > 0) {
    const auto boxes = plane_boxes(problem, element_bytes, arrangement, tile);
    return boxes ? WgmmaLoad(*boxes) : WgmmaLoad::elements();
  }
  if (const auto lines = n_major_lines(problem, element_bytes, product, arrangement, tile)) return WgmmaLoad(*lines);
  const auto boxes = line_boxes(problem, element_bytes, arrangement, tile);
  return boxes ? WgmmaLoad(*boxes) : WgmmaLoad::elements();
}

WgmmaLoad load_of_channels(int element_bytes, const WgmmaProduct& product, int32_t position_bytes) {
  const int64_t bytes = int64_t{product.in_channels} * element_bytes;
  if (bytes % position_bytes == 0) return WgmmaLoad::channel_boxes();
  return bytes % 16 == 0 ? WgmmaLoad::pieces() : WgmmaLoad::elements();
}

}  // namespace convt3d
