// The wgmma engine's plan: a block keeps a tile of the input with its halo in shared memory and serves every tap and
// phase from it. A plan is made of parts, each by one function from those before it and constant afterwards; each
// part's header says what it decides. The search makes them for operands that are dense and aligned. The plan of a call
// has the same but for its load, its store and its copy, which functions make from those and the call's operands.
// docs/dev/engine-wgmma.md shows the parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/channels_copy.h"
#include "core/device_traits.h"
#include "core/integer.h"
#include "core/operands.h"
#include "engines/wgmma/plan/arrangement.h"
#include "engines/wgmma/plan/grid.h"
#include "engines/wgmma/plan/k_order.h"
#include "engines/wgmma/plan/load.h"
#include "engines/wgmma/plan/memory.h"
#include "engines/wgmma/plan/panels.h"
#include "engines/wgmma/plan/problem.h"
#include "engines/wgmma/plan/product.h"
#include "engines/wgmma/plan/store.h"
#include "engines/wgmma/plan/tile.h"

namespace convt3d {

// All that is searched for, and what costs follow from.
struct WgmmaPlanParts {
  WgmmaProduct product;
  WgmmaArrangement arrangement;
  WgmmaTile tile;
  WgmmaLoad load;
  WgmmaPanels panels;
  WgmmaLoops loops;
  WgmmaPipelines pipelines;
  WgmmaStore store;
  WgmmaMemory memory;
  WgmmaGrid grid;
  OperandCopy copy;  // of the input, which is then what the kernel reads

  // Of a work tile; those whose products are one sum are counted, too.
  CONVT3D_HOST_DEVICE int32_t split_passes() const { return tile.by_splits.quotient(arrangement.passes()); }
  // The tile, or its chunks, are loaded for each pass anew.
  CONVT3D_HOST_DEVICE bool loads_each_pass() const { return loops.chunks > 1 || arrangement.phase_halos; }
  // Parts of an image and channel that epilogues leave moments of: a warpgroup's share of a tile, of one phase. None
  // where images share tiles, as a warp's columns then are of several.
  int64_t moment_parts() const {
    if (tile.image_log > 0) return 0;
    int64_t parts = 2;
    for (int i = 0; i < 3; ++i) parts *= int64_t{tile.count[i]} * arrangement.axis[static_cast<size_t>(i)].stride;
    return parts;
  }
  int64_t packed_bytes() const { return packed_weight_bytes(product, arrangement, loops); }
  // The workspace: the packed weight, behind it the counters of work tiles, behind these what is copied of the input.
  int64_t kernel_bytes() const {
    return packed_bytes() == 0 ? 0 : packed_bytes() + kWgmmaMaxClasses * int64_t{sizeof(uint32_t)};
  }
  int64_t copy_offset() const { return workspace_part(kernel_bytes()); }
  int64_t workspace_bytes() const { return copy.exists ? copy_offset() + copy.bytes() : kernel_bytes(); }
};

// With the load, the store and the copy of a call's operands.
struct WgmmaPlan : WgmmaPlanParts {
  double cost;                 // expected clocks
  double unstored_cost;        // expected clocks where the epilogue stores nothing and only gathers moments
  bool packs_beside = false;   // its weight, beside the kernel before it, and is done after that
  bool source_beside = false;  // what the weight is packed beside writes the source: tiles wait for it, too
};

// A copy of the whole input with its channels last: allowed for whole pieces of 16 bytes, and not too many bytes.
bool can_copy(const WgmmaProblem& problem, WgmmaElement element);
OperandCopy input_copy(const WgmmaProblem& problem, int element_bytes, const OperandTraits& input);
// The plans for these operands: `first` is the input, and may be copied.
std::vector<WgmmaPlan> wgmma_candidates(const WgmmaProblem& problem, WgmmaElement element, const Operands& operands,
                                        const DeviceTraits& device, bool copies = true);
// The cheapest candidate; nothing where there is none. Strides and addresses decide how tiles are loaded and outputs
// stored, and what that costs, but not which candidate it is: products are added in its order, so that a problem has
// the same bits however its input lies in memory.
std::optional<WgmmaPlan> plan_wgmma(const WgmmaProblem& problem, WgmmaElement element, const Operands& operands,
                                    const DeviceTraits& device, bool copies = true);
std::string to_string(const WgmmaPlan& plan);

}  // namespace convt3d
