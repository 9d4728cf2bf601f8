// What a plan of the wgmma engine is expected to cost, in clocks of one multiprocessor.
#pragma once

#include <cstdint>

namespace convt3d {

struct DeviceTraits;
struct WgmmaPlanParts;
struct WgmmaProblem;

// What TMA takes for a row of a box, in clocks.
double tma_row_clocks(int row_bytes);

// `stores`: else its epilogue only gathers moments.
double expected_clocks(const WgmmaProblem& problem, int element_bytes, const DeviceTraits& device,
                       const WgmmaPlanParts& plan, bool stores = true);

}  // namespace convt3d
