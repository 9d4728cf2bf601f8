// N-major tiles, element by element: what their boxes bring, and which position of the input the
// plan's phases expect there.
#pragma once

#include <algorithm>

#include "engines/wgmma/plan/plan.h"
#include "terms.h"

namespace convt3d {

// The tile at `first` (height and width) of a phase that reads the positions `low` further.
inline void check_box_of_lines(const Problem& problem, const WgmmaPlan& plan, const int (&first)[2],
                               const int (&low)[2]) {
  const int64_t height = plan.arrangement.axis[1].src_size;
  const int64_t width = plan.arrangement.axis[2].src_size;
  const WgmmaNMajor& n_major = plan.load.as_n_major();
  const int line = 1 << n_major.line_log;
  const bool whole = n_major.crosses_widths;
  const int origin[2] = {first[0] + low[0], first[1] + low[1]};
  // The box's coordinates; along the width they are multiples of 16 bytes.
  const int64_t box_line = whole ? int64_t{origin[0]} * plan.tile.size[2] >> n_major.line_log : origin[0];
  const int64_t box_width = whole ? 0 : origin[1];
  expect(box_width % 8 == 0, "a box begins at a multiple of 16 bytes", problem);
  for (int position = 0; position < plan.tile.size[1] * plan.tile.size[2]; ++position) {
    const int64_t h = origin[0] + position / plan.tile.size[2];
    const int64_t w = origin[1] + position % plan.tile.size[2];
    const bool inside = h >= 0 && h < height && w >= 0 && w < width;
    const int64_t at_line = box_line + position / line;
    const int64_t at_width = box_width + position % line;
    const int64_t lines = whole ? height * width / line : height;
    const bool brought = at_line >= 0 && at_line < lines && at_width >= 0 && at_width < (whole ? line : width);
    const int64_t element = whole ? at_line * line + at_width : at_line * width + at_width;
    expect(brought == inside && (!inside || element == h * width + w), "lines of positions hold the phase's positions",
           problem);
  }
}

inline void check_n_major(const Problem& problem, WgmmaElement element, bool channels_last, const WgmmaPlan& plan) {
  const WgmmaNMajor& n_major = plan.load.as_n_major();
  const int line = 1 << n_major.line_log;
  expect(element.bytes == 2 && !channels_last && plan.arrangement.folds() == 1 && plan.tile.image_log == 0 &&
             plan.arrangement.axis[0].reach + plan.arrangement.axis[1].reach + plan.arrangement.axis[2].reach == 0,
         "lines of positions are the input's", problem);
  expect(plan.tile.size[1] * plan.tile.size[2] % line == 0 && plan.tile.instruction.n % line == 0 &&
             plan.tile.second_start % line == 0,
         "lines of positions are whole", problem);
  const auto low_of = [&](int axis, int outer) {
    return plan.arrangement.phase_halos ? plan.arrangement.axis[axis].taps[outer].low : plan.arrangement.axis[axis].low;
  };
  for (int h = 0; h < plan.arrangement.axis[1].outer; ++h) {
    for (int w = 0; w < plan.arrangement.axis[2].outer; ++w) {
      // The first tiles and the last ones.
      for (const int tile_h : {0, 1, plan.tile.count[1] - 1}) {
        for (const int tile_w : {0, 1, plan.tile.count[2] - 1}) {
          if (tile_h >= plan.tile.count[1] || tile_w >= plan.tile.count[2]) continue;
          check_box_of_lines(problem, plan, {tile_h * plan.tile.size[1], tile_w * plan.tile.size[2]},
                             {low_of(1, h), low_of(2, w)});
        }
      }
    }
  }
}

}  // namespace convt3d
