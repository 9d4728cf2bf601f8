#include "engines/mma/correlation/memory.h"

#include <algorithm>
#include <cstdint>

#include "core/integer.h"

namespace convt3d::mma {
namespace {

// Most taps of `count` neighbouring residues of an axis.
int32_t most_taps(const Residues& residues, bool all) {
  if (all) return residues.taps;
  int32_t most = 0;
  for (int32_t e = 0; e < residues.count; ++e) most = std::max<int32_t>(most, residues.tap_count[e]);
  return most;
}

}  // namespace

void set_weight_steps(CorrelationPlan& plan) {
  plan.weight_steps = plan.table_steps * plan.chunks;
  if (plan.k_splits == 1) return;
  int32_t steps = plan.split_stages * plan.chunk_steps;
  for (size_t i = 0; i < 3; ++i) steps *= plan.tile.axis[i].split ? 1 : most_taps(plan.residues[i], false);
  plan.weight_steps = std::min(plan.weight_steps, steps);
}

bool set_tables(CorrelationPlan& plan, int32_t element_bytes, int32_t most_table_steps, int32_t most_row_vector) {
  const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
  const int32_t width = plan.residues[2].count;
  const int32_t plane = width * plan.residues[1].count;
  const int64_t steps = int64_t{most_taps(plan.residues[0], plan.block_phases > plane)} *
                        most_taps(plan.residues[1], plan.block_phases > width) *
                        most_taps(plan.residues[2], plan.block_phases > 1) * plan.chunk_steps;
  if (steps > most_table_steps) return false;
  plan.table_steps = static_cast<int32_t>(steps);
  set_weight_steps(plan);
  const bool stages = plan.store == StoreWay::kRows;
  plan.joins_width = stages && plan.block_phases % width == 0;
  plan.row_vector = 1;
  plan.stages_matrices = false;
  plan.staging_bytes = plan.staging_pitch = 0;
  if (stages) {
    const int32_t rows = plan.tile.images * plan.box[0] * plan.box[1];
    const int32_t length = row_length(plan.box[2], width, plan.joins_width);
    const int32_t joined = plan.joins_width ? width : 1;
    plan.stages_matrices = element_bytes == 2 && joined <= kMostMatrixResidues;
    // Matrices are whole, past the box as well.
    plan.staging_pitch = staging_pitch(plan.stages_matrices ? joined * extent.m() : rows * length, element_bytes);
    plan.staging_bytes = extent.n() * plan.staging_pitch;
    if (plan.joins_width || width == 1) {
      plan.row_vector = most_row_vector;
      while (length % plan.row_vector != 0) plan.row_vector /= 2;
    }
  }
  plan.packed_bytes =
      plan.groups * plan.n_blocks * plan.taps() * plan.chunks * plan.chunk_steps * step_bytes(extent, plan.terms);
  // Boxes and pieces of the weight are numbers of 31 bits.
  return plan.box_count() <= INT32_MAX && plan.packed_pieces() <= INT32_MAX;
}

SharedLayout shared_layout(const CorrelationPlan& plan) {
  const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
  SharedLayout layout{};
  layout.share = 0;
  layout.barriers = layout.share + kShareBytes;
  layout.bias = layout.barriers + kBarrierBytes;
  layout.offsets = layout.bias + 4 * extent.n();
  layout.steps = layout.offsets + 8 * extent.warps() * extent.warp_m;
  layout.tables = round_up(layout.steps + 4 * plan.table_steps, 16);
  layout.fixed = layout.tables + plan.tables() * plan.table_bytes();
  layout.staging = round_up(layout.fixed + plan.load.fixed_bytes(), 16);
  layout.weights = layout.staging + plan.staging_bytes;
  layout.bytes = layout.weights + int64_t{plan.slots} * plan.slot_steps * step_bytes(extent, plan.terms);
  layout.raw = static_cast<int32_t>(std::min<int64_t>(layout.bytes, INT32_MAX));
  layout.bytes += plan.ahead * plan.raw_bytes();
  layout.tiles = static_cast<int32_t>(std::min<int64_t>(layout.bytes, INT32_MAX));
  layout.bytes += int64_t{plan.buffers} * plan.tile.rows * plan.tile.pitch;
  return layout;
}

bool set_memory(CorrelationPlan& plan, int64_t most_bytes) {
  const int64_t bytes = shared_layout(plan).bytes;
  if (bytes > most_bytes) return false;
  plan.shared_bytes = static_cast<int32_t>(bytes);
  return true;
}

}  // namespace convt3d::mma
