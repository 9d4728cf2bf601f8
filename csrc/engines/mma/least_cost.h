// What no plan of this engine takes less than, for a problem: its products. Found without a search, so that a choice
// need not search what cannot win.
#pragma once

#include "core/device_traits.h"
#include "core/operator.h"
#include "core/problem.h"

namespace convt3d::mma {

// Milliseconds, of tiles that are as full as the problem's channels fill them; of a single gradient or the forward.
double least_products_ms(Operator op, const Problem& problem, DataType dtype, int terms, const DeviceTraits& device);

}  // namespace convt3d::mma
