// Whether grad_output is copied with its channels last where that pays.
#pragma once

#include "planning/choose.h"

namespace convt3d {

// Of a gradient (core/channels_copy.h). Of a view (core/output_view.h) no more is copied than it has, so that one of
// them may be that is a small operand, or mostly channels, where the tensor itself is not.
bool may_copy_grad(const PlanQuery& query);

}  // namespace convt3d
