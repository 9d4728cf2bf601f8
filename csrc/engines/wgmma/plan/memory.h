// A block's shared memory: how the tiles' pipeline, staging and the weights' pipeline share it, and where each part
// begins.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "engines/wgmma/plan/arrangement.h"
#include "engines/wgmma/plan/k_order.h"
#include "engines/wgmma/plan/load.h"
#include "engines/wgmma/plan/panels.h"
#include "engines/wgmma/plan/product.h"
#include "engines/wgmma/plan/store.h"
#include "engines/wgmma/plan/store_shape.h"
#include "engines/wgmma/plan/tile.h"

namespace convt3d {

// The stages of both pipelines, and how the two warpgroups of consumers share the tensor cores.
struct WgmmaPipelines {
  int32_t tile_stages;    // each a chunk of a tile
  int32_t weight_stages;  // each kWgmmaWeightStageBytes
  bool resident_weights;  // the stages hold all weights of a block's passes
  bool ping_pong;         // the warpgroups multiply in turn, each storing while the other multiplies
  bool skips_unread;      // products of offsets at which a tile reads nothing are left out, and their weights; of sums
                          // of one phase
  uint32_t lag_clocks;    // how much later the second warpgroup begins where they do not: one stores while the other
                          // multiplies, too
};

// The parts of shared memory, one after another behind the barriers. The tiles come first: columns that are dropped may
// be read past a tile's end.
enum WgmmaPart { kTilePart, kStagingPart, kWeightPart, kColumnPart, kSegmentPart, kShiftPart, kBoxPart, kSourcePart };
constexpr int kWgmmaParts = 8;

struct WgmmaMemory {
  int32_t begin[kWgmmaParts];
  int32_t bytes;  // of all, with the barriers
};

// In the table of columns, of a warpgroup: those of whole blocks that are read at once.
CONVT3D_HOST_DEVICE constexpr int32_t wgmma_table_columns(int32_t n) { return (n + 63) & -64; }

using WgmmaPartBytes = std::array<int64_t, kWgmmaParts>;
// Bytes of the parts whose sizes follow from the plan: all but tiles, staging and weights, which have none yet.
WgmmaPartBytes table_bytes(const WgmmaTile& tile, const WgmmaLoops& loops, const WgmmaLoad& load,
                           const WgmmaSegments& segments);
// Bytes that all parts take at most, aligned.
int64_t most_bytes(const WgmmaPartBytes& parts);
// Bytes of all warps' staging, which begins and ends at a multiple of the swizzle's pattern.
int64_t staging_bytes(const WgmmaStore& store);

// Stages of weights that the passes of one split fill, at most.
int64_t most_split_stages(const WgmmaArrangement& arrangement, const WgmmaTile& tile, const WgmmaLoops& loops);

// The stages for which `shared_bytes` suffice beside the tables and this staging, and what is left over for larger
// bursts of staging. Nothing where shared memory is too small.
struct WgmmaShares {
  int32_t tile_stages;
  int32_t weight_stages;
  bool resident_weights;
  int64_t spare;
};
std::optional<WgmmaShares> share_memory(int64_t shared_bytes, const WgmmaArrangement& arrangement,
                                        const WgmmaTile& tile, const WgmmaPanels& panels, const WgmmaLoops& loops,
                                        const WgmmaPartBytes& tables, const WgmmaStore& store);
// Columns that are dropped may be read past a tile's end, but not past what follows the tiles.
bool reads_stay_inside(const WgmmaArrangement& arrangement, const WgmmaTile& tile, const WgmmaLoad& load,
                       const WgmmaPanels& panels, const WgmmaShares& shares, const WgmmaStore& store);
// In ping-pong one warpgroup may be a whole pass ahead: the weights' pipeline, too, has to hold that much. Two terms
// pause after every two stages, which the other warpgroup fills.
bool can_ping_pong(const WgmmaArrangement& arrangement, const WgmmaPanels& panels, const WgmmaLoops& loops,
                   const WgmmaShares& shares);
WgmmaPipelines make_pipelines(const WgmmaArrangement& arrangement, const WgmmaTile& tile, const WgmmaLoops& loops,
                              const WgmmaShares& shares, bool ping_pong);
WgmmaMemory place_parts(const WgmmaPanels& panels, const WgmmaShares& shares, WgmmaPartBytes parts,
                        const WgmmaStore& store);

}  // namespace convt3d
