#include "engines/mma/correlation_memory.h"

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

bool set_memory(CorrelationPlan& plan, int32_t element_bytes, int32_t most_table_steps, int64_t most_bytes) {
  const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
  const int32_t width = plan.residues[2].count;
  const int32_t plane = width * plan.residues[1].count;
  const int64_t steps = int64_t{most_taps(plan.residues[0], plan.block_phases > plane)} *
                        most_taps(plan.residues[1], plan.block_phases > width) *
                        most_taps(plan.residues[2], plan.block_phases > 1) * plan.chunk_steps;
  if (steps > most_table_steps) return false;
  plan.table_steps = static_cast<int32_t>(steps);
  plan.joins_width = !plan.stores_channels && plan.block_phases % width == 0;
  plan.staging_bytes = 0;
  if (!plan.stores_channels) {
    const int32_t rows = plan.tile.images * plan.box[0] * plan.box[1];
    plan.staging_bytes =
        extent.n() * staging_pitch(rows * row_length(plan.box[2], width, plan.joins_width), element_bytes);
  }
  const int64_t packed_steps = int64_t{plan.taps()} * plan.chunks * plan.chunk_steps + 1;
  plan.packed_bytes = (plan.groups * plan.n_blocks * (packed_steps - 1) + 1) * extent.n() * kStepBytes * plan.terms;
  const int64_t tile_bytes = int64_t{plan.tile.rows} * plan.tile.pitch;
  if (tile_bytes > most_bytes) return false;
  // A block is an index of the grid, and a piece of the weight one of 31 bits.
  if (plan.blocks() > INT32_MAX || plan.packed_pieces() > INT32_MAX) return false;
  const SharedLayout layout(extent.m(), plan.table_steps, plan.tile, plan.buffers, plan.staging_bytes);
  if (layout.bytes > most_bytes) return false;
  plan.shared_bytes = static_cast<int32_t>(layout.bytes);
  return true;
}

}  // namespace convt3d::mma
