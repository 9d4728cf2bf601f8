// Tiles that are rows of positions, element by element: what their boxes bring, and which position of the input the
// plan's phases expect there.
#pragma once

#include <algorithm>

#include "engines/wgmma/plan/plan.h"
#include "terms.h"

namespace convt3d {

// The tile at `first` (height and width) of a phase that reads the positions `low` further.
inline void check_box_of_rows(const Problem& problem, const HaloPlan& plan, const int (&first)[2],
                              const int (&low)[2]) {
  const int64_t height = problem.input_size[1];
  const int64_t width = problem.input_size[2];
  const int row = 1 << plan.row_log;
  const bool whole = plan.rows_cross_widths();
  const int origin[2] = {first[0] + low[0], first[1] + low[1]};
  // The box's coordinates; along the width they are multiples of 16 bytes.
  const int64_t box_row = whole ? int64_t{origin[0]} * plan.tile[2] >> plan.row_log : origin[0];
  const int64_t box_width = whole ? 0 : origin[1];
  expect(box_width % 8 == 0, "a box begins at a multiple of 16 bytes", problem);
  for (int position = 0; position < plan.tile[1] * plan.tile[2]; ++position) {
    const int64_t h = origin[0] + position / plan.tile[2];
    const int64_t w = origin[1] + position % plan.tile[2];
    const bool inside = h >= 0 && h < height && w >= 0 && w < width;
    const int64_t at_row = box_row + position / row;
    const int64_t at_width = box_width + position % row;
    const int64_t rows = whole ? height * width / row : height;
    const bool brought = at_row >= 0 && at_row < rows && at_width >= 0 && at_width < (whole ? row : width);
    const int64_t element = whole ? at_row * row + at_width : at_row * width + at_width;
    expect(brought == inside && (!inside || element == h * width + w), "rows of positions hold the phase's positions",
           problem);
  }
}

inline void check_position_rows(const Problem& problem, HaloElement element, bool channels_last, const HaloPlan& plan) {
  const int row = 1 << plan.row_log;
  expect(element.bytes == 2 && !channels_last && plan.box_width == 0 && plan.folds() == 1 && plan.image_log == 0 &&
             plan.axis[0].reach + plan.axis[1].reach + plan.axis[2].reach == 0,
         "rows of positions are the input's", problem);
  expect(plan.tile[1] * plan.tile[2] % row == 0 && plan.n % row == 0 && plan.second_start % row == 0,
         "rows of positions are whole", problem);
  const auto low_of = [&](int axis, int outer) {
    return plan.phase_halos ? plan.axis[axis].taps[outer].low : plan.axis[axis].low;
  };
  for (int h = 0; h < plan.axis[1].outer; ++h) {
    for (int w = 0; w < plan.axis[2].outer; ++w) {
      // The first tiles and the last ones.
      for (const int tile_h : {0, 1, plan.tiles[1] - 1}) {
        for (const int tile_w : {0, 1, plan.tiles[2] - 1}) {
          if (tile_h >= plan.tiles[1] || tile_w >= plan.tiles[2]) continue;
          check_box_of_rows(problem, plan, {tile_h * plan.tile[1], tile_w * plan.tile[2]},
                            {low_of(1, h), low_of(2, w)});
        }
      }
    }
  }
}

}  // namespace convt3d
