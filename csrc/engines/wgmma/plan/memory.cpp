#include "engines/wgmma/plan/memory.h"

#include <algorithm>
#include <numeric>

#include "core/integer.h"
#include "device/swizzle.h"

namespace convt3d {
namespace {

// To what the end of each part is aligned, and what that may take in all.
constexpr HaloPartBytes kAlignment = {kSwizzleBytes, kSwizzleBytes, 16, 16, 16, 128, 128, 128};
constexpr int64_t kAlignmentBytes = 1024;

// Stages of weights that a pass fills at most, on all its chunks.
int64_t most_pass_stages(const HaloLoops& loops) {
  int64_t most = 0;
  for (int phase = 0; phase < loops.phases; ++phase) {
    most = std::max<int64_t>(most, loops.chunks * int64_t{loops.chunk_stages(phase)});
  }
  return most;
}

}  // namespace

HaloPartBytes table_bytes(const HaloTile& tile, const HaloLoops& loops, const HaloLoad& load,
                          const HaloSegments& segments) {
  HaloPartBytes parts{};
  parts[kColumnPart] = 2 * int64_t{halo_table_columns(tile.instruction.n)} * kHaloColumnBytes;
  parts[kSegmentPart] = int64_t{segments.segments[0] + segments.segments[1]} * kHaloStoredSegmentBytes;
  // The table has two stages more than there are, as shifts are read ahead.
  parts[kShiftPart] = round_up((loops.first[loops.count()] + 2) * loops.stage_steps() * int64_t{kHaloShiftBytes}, 128);
  if (load.transposes()) parts[kBoxPart] = kHaloTileProducerWarps * kHaloBoxBuffers * kHaloBoxBytes;
  if (load.plane_boxes()) {
    const HaloPlaneBoxes& planes = load.as_plane_boxes();
    parts[kSourcePart] = round_up(int64_t{planes.tables} * planes.entries() * kHaloSourceBytes, 128);
  }
  return parts;
}

int64_t most_bytes(const HaloPartBytes& parts) {
  return std::accumulate(parts.begin(), parts.end(), kHaloBarrierBytes + kAlignmentBytes);
}

int64_t staging_bytes(const HaloStore& store) {
  return round_up(int64_t{kHaloConsumerWarps} * store.warp_bytes, kSwizzleBytes);
}

int64_t most_split_stages(const HaloArrangement& arrangement, const HaloTile& tile, const HaloLoops& loops) {
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

std::optional<HaloShares> share_memory(int64_t shared_bytes, const HaloArrangement& arrangement, const HaloTile& tile,
                                       const HaloPanels& panels, const HaloLoops& loops, const HaloPartBytes& tables,
                                       const HaloStore& store) {
  const int64_t tile_bytes = panels.tile_bytes;
  const int64_t left = shared_bytes - most_bytes(tables) - staging_bytes(store) - tile_bytes;
  if (left < kHaloLeastWeightStages * kHaloWeightStageBytes) return std::nullopt;
  const int64_t resident = most_split_stages(arrangement, tile, loops);
  const bool resident_weights =
      resident <= kHaloMaxWeightStages && left - resident * kHaloWeightStageBytes >= tile_bytes;
  const int64_t few = left - (kHaloLeastWeightStages + 1) * kHaloWeightStageBytes >= tile_bytes
                          ? kHaloLeastWeightStages + 1
                          : kHaloLeastWeightStages;
  int64_t weight_stages = resident_weights ? std::max<int64_t>(1, resident) : few;
  // What more than two whole tiles would take is better spent on staging.
  const int64_t tile_stages = std::min<int64_t>(panels.chunks() == 1 ? 2 : kHaloMaxTileStages,
                                                1 + (left - weight_stages * kHaloWeightStageBytes) / tile_bytes);
  if (panels.chunks() > 1 && tile_stages == 1) return std::nullopt;  // a chunk leaves while the next is multiplied
  const int64_t rest = left - (tile_stages - 1) * tile_bytes;
  if (!resident_weights) {
    weight_stages = std::min<int64_t>(kHaloMaxWeightStages, rest / kHaloWeightStageBytes);
  }
  return HaloShares{static_cast<int32_t>(tile_stages), static_cast<int32_t>(weight_stages), resident_weights,
                    rest - weight_stages * kHaloWeightStageBytes};
}

bool reads_stay_inside(const HaloArrangement& arrangement, const HaloTile& tile, const HaloLoad& load,
                       const HaloPanels& panels, const HaloShares& shares, const HaloStore& store) {
  const auto& axis = arrangement.axis;
  const int64_t shift = int64_t{(axis[0].reach * tile.halo[1] + axis[1].reach) * tile.halo[2] + axis[2].reach}
                        << tile.image_log;
  const int64_t positions = int64_t{tile.halo_positions()} << tile.image_log;
  const int64_t past = std::max<int64_t>(0, tile.second_start + tile.instruction.n + shift - positions);
  const int64_t position_bytes = load.n_major() ? panels.n_major_position_bytes() : panels.position_bytes;
  return past * position_bytes <= staging_bytes(store) + int64_t{shares.weight_stages} * kHaloWeightStageBytes;
}

bool can_ping_pong(const HaloPanels& panels, const HaloLoops& loops, const HaloShares& shares) {
  return loops.terms == 1 && panels.chunks() == 1 &&
         (shares.resident_weights || most_pass_stages(loops) < shares.weight_stages);
}

HaloPipelines make_pipelines(const HaloTile& tile, const HaloLoops& loops, const HaloShares& shares, bool ping_pong) {
  constexpr int kProductClocks = 2;  // for 4 columns
  // The pipeline of weights bounds how far the warpgroups can be apart.
  const int stages = std::max(shares.weight_stages - 2, 0);
  const int lag = stages * loops.stage_products() * tile.instruction.n / 4 * kProductClocks;
  return {shares.tile_stages, shares.weight_stages, shares.resident_weights, ping_pong,
          static_cast<uint32_t>(ping_pong ? 0 : lag)};
}

HaloMemory place_parts(const HaloPanels& panels, const HaloShares& shares, HaloPartBytes parts,
                       const HaloStore& store) {
  parts[kTilePart] = int64_t{shares.tile_stages} * panels.tile_bytes;
  parts[kStagingPart] = int64_t{kHaloConsumerWarps} * store.warp_bytes;
  parts[kWeightPart] = int64_t{shares.weight_stages} * kHaloWeightStageBytes;
  HaloMemory memory{};
  int64_t at = kHaloBarrierBytes;
  for (int part = 0; part < kHaloParts; ++part) {
    memory.begin[part] = static_cast<int32_t>(at);
    at = round_up(at + parts[part], kAlignment[part]);
  }
  memory.bytes = static_cast<int32_t>(at);
  return memory;
}

}  // namespace convt3d
