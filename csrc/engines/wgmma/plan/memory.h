// A block's shared memory: how tiles, staging and the ring of weights share it, and where each part begins.
#pragma once

#include "engines/wgmma/plan/plan.h"

namespace convt3d {

constexpr int64_t kSwizzleBytes = 1024;  // the swizzle's pattern repeats; panels are aligned to it

// Of a staging that begins and ends at a multiple of the swizzle's pattern.
int64_t staging_bytes(const HaloStaging& staging);
// Of shared memory, what neither tiles nor staging nor the ring take.
int64_t beside_staging(const HaloPlan& plan);
// Columns that are dropped may be read past a tile's end, but not past what follows the tiles.
bool reads_stay_inside(const HaloPlan& plan);
// Of the `shared_bytes` that a block can have: slots, ring and, of what is left, larger batches than the staging has.
// False where shared memory is too small.
bool divide_memory(int element_bytes, int64_t shared_bytes, HaloPlan& plan);
// What the search leaves open: the marks of the staging and the places of all parts.
HaloPlan complete(HaloPlan plan);

}  // namespace convt3d
