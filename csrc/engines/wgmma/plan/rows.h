// How the rows of the tensor-core engine's M are made up, and the halos that follow from it.
#pragma once

#include "core/problem.h"
#include "engines/wgmma/plan/plan.h"

namespace convt3d {

// What the two sets of accumulators are.
enum class Sets { kNone, kWidth, kHeight, kChannels };

struct RowArrangement {
  bool stack_width;  // the phases of the width join M
  Sets sets;
  bool folds;  // neighbouring outputs may join M, too
};

// Which phases join M, and what remains. False where the engine cannot, or an arrangement is not what it says.
bool arrange_rows(const Problem& problem, bool channels_last, RowArrangement rows, HaloPlan& plan);
// The halos that a tile has for all phases or, of `phase_halos`, for those of one unit. False where these are the same.
bool set_halos(bool phase_halos, HaloPlan& plan);

}  // namespace convt3d
