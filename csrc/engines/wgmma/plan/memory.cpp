#include "engines/wgmma/plan/memory.h"

#include <algorithm>
#include <numeric>

#include "core/integer.h"
#include "device/swizzle.h"

namespace convt3d {
namespace {

// To what the end of each part is aligned, and what that may take in all.
constexpr WgmmaPartBytes kAlignment = {kSwizzleBytes, kSwizzleBytes, 16, 16, 16, 128, 128, 128};
constexpr int64_t kAlignmentBytes = 1024;

// To find out what a pass reads takes time, too: it is done where less than this share of the offsets is read at.
constexpr double kMostReadShare = 0.97;

// Stages of weights that a pass fills at most, on all its chunks.
int64_t most_pass_stages(const WgmmaLoops& loops) {
  int64_t most = 0;
  for (int phase = 0; phase < loops.phases; ++phase) {
    most = std::max<int64_t>(most, loops.chunks * int64_t{loops.chunk_stages(phase)});
  }
  return most;
}

}  // namespace

WgmmaPartBytes table_bytes(const WgmmaTile& tile, const WgmmaLoops& loops, const WgmmaLoad& load,
                           const WgmmaSegments& segments) {
  WgmmaPartBytes parts{};
  parts[kColumnPart] = 2 * int64_t{wgmma_table_columns(tile.instruction.n)} * kWgmmaColumnBytes;
  parts[kSegmentPart] = int64_t{segments.segments[0] + segments.segments[1]} * kWgmmaStoredSegmentBytes;
  // The table has two stages more than there are, as shifts are read ahead.
  parts[kShiftPart] = round_up((loops.first[loops.count()] + 2) * loops.stage_steps() * int64_t{kWgmmaShiftBytes}, 128);
  if (load.transposes()) parts[kBoxPart] = kWgmmaTileProducerWarps * kWgmmaBoxBuffers * kWgmmaBoxBytes;
  if (load.plane_boxes()) {
    const WgmmaPlaneBoxes& planes = load.as_plane_boxes();
    parts[kSourcePart] = round_up(int64_t{planes.tables} * planes.entries() * kWgmmaSourceBytes, 128);
  }
  return parts;
}

int64_t most_bytes(const WgmmaPartBytes& parts) {
  return std::accumulate(parts.begin(), parts.end(), kWgmmaBarrierBytes + kAlignmentBytes);
}

int64_t staging_bytes(const WgmmaStore& store) {
  return round_up(int64_t{kWgmmaConsumerWarps} * store.warp_bytes, kSwizzleBytes);
}

int64_t most_split_stages(const WgmmaArrangement& arrangement, const WgmmaTile& tile, const WgmmaLoops& loops) {
  const int passes = arrangement.passes() / tile.splits;
  int64_t most = 0;
  for (int first = 0; first < arrangement.passes(); first += passes) {
    int64_t stages = 0;
    for (int pass = first; pass < first + passes; ++pass) {
      stages += loops.chunks * int64_t{loops.chunk_stages(pass % arrangement.phases)};
    }
    most = std::max(most, stages);
  }
  return most;
}

std::optional<WgmmaShares> share_memory(int64_t shared_bytes, const WgmmaArrangement& arrangement,
                                        const WgmmaTile& tile, const WgmmaPanels& panels, const WgmmaLoops& loops,
                                        const WgmmaPartBytes& tables, const WgmmaStore& store) {
  const int64_t tile_bytes = panels.tile_bytes;
  const int64_t left = shared_bytes - most_bytes(tables) - staging_bytes(store) - tile_bytes;
  if (left < kWgmmaLeastWeightStages * kWgmmaWeightStageBytes) return std::nullopt;
  const int64_t resident = most_split_stages(arrangement, tile, loops);
  const bool resident_weights =
      resident <= kWgmmaMaxWeightStages && left - resident * kWgmmaWeightStageBytes >= tile_bytes;
  const int64_t few = left - (kWgmmaLeastWeightStages + 1) * kWgmmaWeightStageBytes >= tile_bytes
                          ? kWgmmaLeastWeightStages + 1
                          : kWgmmaLeastWeightStages;
  int64_t weight_stages = resident_weights ? std::max<int64_t>(1, resident) : few;
  // What more than two whole tiles would take is better spent on staging.
  const bool in_parts = panels.chunks() * arrangement.summed_phases() > 1;
  const int64_t tile_stages = std::min<int64_t>(in_parts ? kWgmmaMaxTileStages : 2,
                                                1 + (left - weight_stages * kWgmmaWeightStageBytes) / tile_bytes);
  if (in_parts && tile_stages == 1) return std::nullopt;  // a part leaves while the next is multiplied
  const int64_t rest = left - (tile_stages - 1) * tile_bytes;
  if (!resident_weights) {
    weight_stages = std::min<int64_t>(kWgmmaMaxWeightStages, rest / kWgmmaWeightStageBytes);
  }
  return WgmmaShares{static_cast<int32_t>(tile_stages), static_cast<int32_t>(weight_stages), resident_weights,
                     rest - weight_stages * kWgmmaWeightStageBytes};
}

bool reads_stay_inside(const WgmmaArrangement& arrangement, const WgmmaTile& tile, const WgmmaLoad& load,
                       const WgmmaPanels& panels, const WgmmaShares& shares, const WgmmaStore& store) {
  const auto& axis = arrangement.axis;
  const int64_t shift = int64_t{(axis[0].reach * tile.halo[1] + axis[1].reach) * tile.halo[2] + axis[2].reach}
                        << tile.image_log;
  const int64_t positions = int64_t{tile.halo_positions()} << tile.image_log;
  const int64_t past = std::max<int64_t>(0, tile.second_start + tile.instruction.n + shift - positions);
  const int64_t position_bytes = load.n_major() ? panels.n_major_position_bytes() : panels.position_bytes;
  return past * position_bytes <= staging_bytes(store) + int64_t{shares.weight_stages} * kWgmmaWeightStageBytes;
}

bool can_ping_pong(const WgmmaArrangement& arrangement, const WgmmaPanels& panels, const WgmmaLoops& loops,
                   const WgmmaShares& shares) {
  return loops.terms == 1 && panels.chunks() == 1 && arrangement.summed_phases() == 1 &&
         (shares.resident_weights || most_pass_stages(loops) < shares.weight_stages);
}

WgmmaPipelines make_pipelines(const WgmmaArrangement& arrangement, const WgmmaTile& tile, const WgmmaLoops& loops,
                              const WgmmaShares& shares, bool ping_pong) {
  constexpr int kProductClocks = 2;  // for 4 columns
  // The pipeline of weights bounds how far the warpgroups can be apart.
  const int stages = std::max(shares.weight_stages - 2, 0);
  const int lag = stages * loops.stage_products() * tile.instruction.n / 4 * kProductClocks;
  const bool skips =
      !shares.resident_weights && arrangement.summed_phases() == 1 && read_share(arrangement, tile) < kMostReadShare;
  return {shares.tile_stages,
          shares.weight_stages,
          shares.resident_weights,
          ping_pong,
          skips,
          static_cast<uint32_t>(ping_pong ? 0 : lag)};
}

WgmmaMemory place_parts(const WgmmaPanels& panels, const WgmmaShares& shares, WgmmaPartBytes parts,
                        const WgmmaStore& store) {
  parts[kTilePart] = int64_t{shares.tile_stages} * panels.tile_bytes;
  parts[kStagingPart] = int64_t{kWgmmaConsumerWarps} * store.warp_bytes;
  parts[kWeightPart] = int64_t{shares.weight_stages} * kWgmmaWeightStageBytes;
  WgmmaMemory memory{};
  int64_t at = kWgmmaBarrierBytes;
  for (int part = 0; part < kWgmmaParts; ++part) {
    memory.begin[part] = static_cast<int32_t>(at);
    at = round_up(at + parts[part], kAlignment[part]);
  }
  memory.bytes = static_cast<int32_t>(at);
  return memory;
}

}  // namespace convt3d
