#include "engines/wgmma/plan/memory.h"

#include <algorithm>

#include "core/integer.h"

namespace convt3d {
namespace {

// Of a packed weight: a thread of the packing, of which 31 bits count, writes at least 16 bytes.
constexpr int64_t kMostPackedBytes = int64_t{16} << 31;

int64_t segments_bytes(const HaloPlan& plan) {
  return int64_t{plan.staging.segments[0] + plan.staging.segments[1]} * kHaloStoredSegmentBytes;
}

// Of two stages more than there are: shifts are read ahead.
int64_t shifts_bytes(const HaloPlan& plan) {
  return round_up((plan.segment_first[plan.phases * plan.sets] + 2) * plan.stage_steps() * int64_t{2}, 128);
}

int64_t boxes_bytes(const HaloPlan& plan) {
  return plan.transposes() ? kHaloLoaderWarps * kHaloBoxBuffers * kHaloBoxBytes : 0;
}

int64_t sources_bytes(const HaloPlan& plan) {
  return round_up(int64_t{plan.source_tables()} * plan.source_entries() * kHaloSourceBytes, 128);
}

}  // namespace

HaloPlan complete(HaloPlan plan) {
  mark_batches(plan.staging);
  int64_t at = kHaloBarrierBytes;
  const auto take = [&](int64_t bytes, int64_t align) {
    const int64_t begin = at;
    at = round_up(at + bytes, align);
    return static_cast<int32_t>(begin);
  };
  HaloMemory& memory = plan.memory;
  memory.tiles = take(int64_t{plan.slots} * plan.slot_bytes(), kSwizzleBytes);
  memory.staging = take(int64_t{kHaloMultiplyWarps} * plan.staging.warp_bytes, kSwizzleBytes);
  memory.ring = take(int64_t{plan.ring} * kHaloStageBytes, 16);
  memory.columns = take(2 * int64_t{plan.table_columns()} * kHaloColumnBytes, 16);
  memory.segments = take(segments_bytes(plan), 16);
  memory.shifts = take(shifts_bytes(plan), 128);
  memory.boxes = take(boxes_bytes(plan), 128);
  memory.sources = take(sources_bytes(plan), 128);
  memory.bytes = static_cast<int32_t>(at);
  return plan;
}

int64_t staging_bytes(const HaloStaging& staging) {
  return round_up(int64_t{kHaloMultiplyWarps} * staging.warp_bytes, kSwizzleBytes);
}

int64_t beside_staging(const HaloPlan& plan) {
  return kHaloBarrierBytes + kSwizzleBytes + 2 * plan.table_columns() * kHaloColumnBytes + segments_bytes(plan) +
         shifts_bytes(plan) + boxes_bytes(plan) + sources_bytes(plan);
}

bool reads_stay_inside(const HaloPlan& plan) {
  const int64_t shift =
      int64_t{(plan.axis[0].reach * plan.halo[1] + plan.axis[1].reach) * plan.halo[2] + plan.axis[2].reach}
      << plan.image_log;
  const int64_t positions = int64_t{plan.halo_positions()} << plan.image_log;
  const int64_t past = std::max<int64_t>(0, plan.second_start + plan.n + shift - positions);
  const int64_t position_bytes = plan.row_log > 0 ? plan.row_position_bytes() : plan.row_bytes;
  return past * position_bytes <= staging_bytes(plan.staging) + int64_t{plan.ring} * kHaloStageBytes;
}

bool divide_memory(int element_bytes, int64_t shared_bytes, HaloPlan& plan) {
  const int64_t slot = plan.slot_bytes();
  const int64_t staging = staging_bytes(plan.staging);
  const int64_t left = shared_bytes - beside_staging(plan) - staging - slot;
  if (left < 3 * kHaloStageBytes) return false;
  const int64_t unit_stages = most_stages(plan);
  plan.resident_weights = unit_stages <= kHaloMaxRing && left - unit_stages * kHaloStageBytes >= slot;
  plan.ring = static_cast<int32_t>(plan.resident_weights                ? std::max<int64_t>(1, unit_stages)
                                   : left - 4 * kHaloStageBytes >= slot ? 4
                                                                        : 3);
  // What more than two whole tiles would take is better spent on staging.
  plan.slots = static_cast<int32_t>(std::min<int64_t>(plan.chunks() == 1 ? 2 : kHaloMaxSlots,
                                                      1 + (left - int64_t{plan.ring} * kHaloStageBytes) / slot));
  if (plan.chunks() > 1 && plan.slots == 1) return false;  // a chunk is handed back while the next is multiplied
  if (!plan.resident_weights) {
    plan.ring =
        static_cast<int32_t>(std::min<int64_t>(kHaloMaxRing, (left - (plan.slots - 1) * slot) / kHaloStageBytes));
  }
  const int64_t spare = left - (plan.slots - 1) * slot - int64_t{plan.ring} * kHaloStageBytes;
  widen_batches(staging + spare / kSwizzleBytes * kSwizzleBytes, element_bytes, plan);
  plan.packed_bytes = plan.groups * plan.m_tiles * plan.stages() * kHaloStageBytes;
  if (plan.packed_bytes > kMostPackedBytes) return false;
  plan.usable = true;
  return true;
}

}  // namespace convt3d
