// What a plan of the wgmma engine is expected to cost, in clocks of one multiprocessor.
#pragma once

#include <cstdint>

namespace convt3d {

struct DeviceTraits;
struct WgmmaPlanParts;
struct Problem;

// `stores`: else its epilogue only gathers moments.
double expected_clocks(const Problem& problem, int element_bytes, const DeviceTraits& device,
                       const WgmmaPlanParts& plan, bool stores = true);

}  // namespace convt3d
