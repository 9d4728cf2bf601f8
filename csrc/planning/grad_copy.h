// Whether grad_output is copied with its channels last where that pays.
#pragma once

#include "planning/choose.h"

namespace convt3d {

// Of a gradient: by may_copy() of core/channels_copy.h. A view (core/output_view.h) may be copied where its tensor may
// not, as no more is copied than it has.
bool may_copy_grad(const PlanQuery& query);

}  // namespace convt3d
