// The launch of a plan's kernel; defined in run_kernel.cuh, instantiated in engines/instantiate/, wide instructions
// apart.
#pragma once

#include "core/call.h"
#include "engines/wgmma/params.h"

namespace convt3d::wgmma {

// kWide: is_wide() of the plan's instruction.
template <typename T, bool kWide>
void run_wgmma_forward(const WgmmaParams<T>& params, Stream stream);

}  // namespace convt3d::wgmma
