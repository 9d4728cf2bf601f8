#include "engines/wgmma/plan/load_shapes.h"

#include <algorithm>

#include "core/integer.h"

namespace convt3d {
namespace {

// Whether the tiles of every phase begin at a multiple of `align` elements in rows of positions: tiles themselves do,
// and a phase's offset may move its tiles along the depth, along the height and, by multiples of what the copy engine
// wants a box to begin at, along the width. Where rows cross widths, a move along the height must be one of whole rows,
// and one along the width would leave the input's rows.
bool rows_begin_tiles(int32_t row, const HaloPlan& plan) {
  constexpr int32_t kAlign = 8;  // elements of 2 bytes
  const auto all = [](const HaloAxis& axis, auto&& allowed) {
    return std::all_of(axis.taps, axis.taps + axis.outer, [&](const HaloTaps& taps) { return allowed(taps.low); });
  };
  if (!plan.rows_cross_widths()) return all(plan.axis[2], [](int32_t low) { return low % kAlign == 0; });
  return all(plan.axis[1], [&](int32_t low) { return int64_t{low} * plan.tile[2] % row == 0; }) &&
         all(plan.axis[2], [](int32_t low) { return low == 0; });
}

}  // namespace

void shape_boxes(const Problem& problem, int element_bytes, HaloPlan& plan) {
  const int align = 16 / element_bytes;
  if (problem.input_size[2] % align != 0) return;
  int shift = 0;  // from a box's beginning to the tile's, at most
  for (int tile = 0; tile < std::min(plan.tiles[2], align); ++tile) {
    for (int outer = 0; outer < plan.axis[2].outer; ++outer) {
      shift = std::max(shift, (tile * plan.tile[2] + plan.axis[2].taps[outer].low) & (align - 1));
    }
  }
  const int64_t width = round_up(plan.halo[2] + shift, align);
  if (width > 2 * plan.tile[2]) return;               // mostly halo: threads are faster
  const int64_t most = kHaloBoxBytes / (width * 16);  // rows
  if (most == 0) return;
  plan.box_width = static_cast<int32_t>(width);
  plan.box_rows = static_cast<int32_t>(ceil_div(plan.halo[1], ceil_div(plan.halo[1], most)));
  plan.box_depths = static_cast<int32_t>(std::clamp<int64_t>(most / plan.halo[1], 1, plan.halo[0]));
  plan.row_boxes = static_cast<int32_t>(ceil_div(plan.halo[1], plan.box_rows));
  plan.depth_boxes = static_cast<int32_t>(ceil_div(plan.halo[0], plan.box_depths));
}

void shape_image_boxes(const Problem& problem, int element_bytes, HaloPlan& plan) {
  const int64_t plane = problem.input_size[1] * problem.input_size[2];
  if (plane * element_bytes % 16 != 0 || problem.input_size[2] * element_bytes % 4 != 0 || plane > kMostBoxExtent ||
      plan.tiles[1] * plan.tiles[2] > 1 || plan.folds() > 1) {
    return;
  }
  // All of a plane is in the tile.
  for (const int i : {1, 2}) {
    for (int outer = 0; outer < plan.axis[i].outer; ++outer) {
      const int low = plan.axis[i].taps[outer].low;
      if (low > 0 || low + plan.halo[i] < problem.input_size[i]) return;
    }
  }
  // The more images, the fewer of a warp's threads meet in a bank of shared memory.
  for (const int images : {8, 4}) {
    if (images * plane * plan.halo[0] * 16 > kHaloBoxBytes) continue;
    const int64_t lanes = 32 / images;  // of an image, in a warp
    plan.box_images = images;
    plan.box_words = static_cast<int32_t>(plan.plane_elements() * int64_t{element_bytes} / 4);
    plan.word_entries = static_cast<int32_t>(round_up(plan.box_words, kHaloWordsInFlight * lanes) + 32 - lanes);
    plan.zero_entries = static_cast<int32_t>(round_up(plan.zero_positions(), kHaloWordsInFlight * lanes));
    return;
  }
}

void shape_position_rows(const Problem& problem, int element_bytes, HaloPlan& plan) {
  if (element_bytes != 2 || plan.image_log > 0 || plan.folds() > 1 || !halo_multiplies_rows(plan.n, plan.sets)) return;
  if (plan.groups > 1 && plan.in_channels % kHaloRowChannels != 0) return;  // a box would reach into the next group
  for (const HaloAxis& axis : plan.axis) {
    if (axis.reach > 0) return;
  }
  const int64_t plane = problem.input_size[1] * problem.input_size[2];
  for (const int log : {6, 5, 4}) {
    const int row = 1 << log;
    if (plan.rows_cross_widths() ? plane % row != 0 || plan.tile[1] * plan.tile[2] % row != 0
                                 : plan.tile[2] != row || problem.input_size[2] % 8 != 0) {
      continue;
    }
    if (plan.n % row != 0 || plan.second_start % row != 0 || !rows_begin_tiles(row, plan)) continue;
    plan.row_log = static_cast<int8_t>(log);
    return;
  }
}

}  // namespace convt3d
