// A model, not a measurement. A multiprocessor multiplies, reads shared memory and L2, moves memory and issues
// instructions at the same time: the slowest of these bounds what its blocks take for a box each. A block alone takes
// what its loading warps or its multiplying warps take, whichever is more, as each waits for latencies of its own.
#include "engines/mma/correlation_cost.h"

#include <algorithm>

#include "core/integer.h"
#include "engines/mma/correlation_memory.h"
#include "engines/mma/load_cost.h"

namespace convt3d::mma {
namespace {

// Clocks.
constexpr double kSchedulers = 4;       // of a multiprocessor, each with a share of the tensor cores
constexpr double kWeightLatency = 500;  // of L2
constexpr double kStageWait = 100;      // to begin a stage that is there
constexpr double kSlotWait = 40;
constexpr double kPhaseWait = 500;   // to turn sums into places and stores
constexpr double kBoxWait = 100;     // of the loading warps, for tables
constexpr double kBlockWait = 4000;  // tables, barriers, the first bytes
// Instructions of a thread.
constexpr double kStoredInPieces = 1.5;  // of an element
constexpr double kStoredInRows = 6;
constexpr double kIssued = 0.6;       // instructions of a scheduler, in a clock
constexpr double kDisturbance = 0.1;  // of what is slowest by all else
constexpr double kShortRun = 16;      // bytes that a run of memory costs beside its own
constexpr int64_t kMostWaves = 4;     // of blocks, one after another on a multiprocessor

// Bytes of the source that lie one after another and are read together.
double run_bytes(const CorrelationPlan& plan, int32_t element_bytes) {
  const TileAxis& width = plan.tile.axis[2];
  if (plan.way == LoadWay::kRows) return 1.0 * element_bytes * plan.load.raw.span;
  if (plan.way == LoadWay::kWidth) return 1.0 * element_bytes * width.box;
  const double channels = std::min(plan.chunk_steps * kStepBytes, plan.k_channels * element_bytes);
  const bool whole = plan.chunks == 1 && plan.groups == 1 && width.stages() == 1 && width.units == width.step;
  return whole ? channels * width.rows() : channels;
}

// Clocks of a multiprocessor.
double step_clocks(const CorrelationPlan& plan, const DeviceTraits& device) {
  const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
  return (extent.m() / 16) * (extent.n() / 8) * device.rates.product_clocks * (plan.terms == 2 ? 3 : 1);
}

}  // namespace

double products_ms(const CorrelationPlan& plan, const DeviceTraits& device, int32_t steps) {
  const double of_box = 1.0 * plan.taps() * steps * step_clocks(plan, device);
  return of_box * static_cast<double>(plan.box_count() * plan.groups * plan.n_blocks) /
         (device.multiprocessors * device.clocks_per_ms);
}

void set_cost(CorrelationPlan& plan, int32_t element_bytes, const DeviceTraits& device) {
  const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
  const double share = static_cast<double>(plan.block_phases) / static_cast<double>(plan.phases());
  const double steps = static_cast<double>(plan.taps()) * plan.chunks * plan.chunk_steps * share;
  const double loads = plan.stages() * (plan.stages() == 1 ? 1.0 : plan.block_phases);
  const double step_products = step_clocks(plan, device);

  double written = static_cast<double>(plan.tile.images) * plan.block_phases * std::min(extent.n(), plan.n_channels);
  double read = static_cast<double>(plan.tile.images) * plan.k_channels * share / plan.n_blocks;
  for (size_t i = 0; i < 3; ++i) {
    written *= std::min(plan.box[i], plan.residues[i].extent);
    read *= plan.box[i] * plan.axis[i].src_step;
  }

  // Of a box, of what a multiprocessor does at once.
  const double products = steps * step_products;
  const double conflicts = 1 + plan.tile.conflicts / 64.0;  // a read of each
  const LoadedTile stage{plan.tile, plan.load, plan.way, plan.masked, plan.terms == 1, element_bytes};
  const double step_shared = extent.warps() * (extent.warp_m * kStepBytes * conflicts +
                                               extent.warp_n * kStepBytes * plan.terms + device.rates.shared_bytes);
  const double weight_bytes = plan.weights_stay ? 0 : steps * step_bytes(extent, plan.terms);
  const double staged_stores = plan.stores_channels ? 0 : written * (4 + element_bytes);
  const double shared_memory =
      (steps * step_shared + loads * staging_bytes(stage) + weight_bytes + staged_stores) / device.rates.shared_bytes;
  const double l2 = (weight_bytes + loads * source_bytes(stage)) / device.rates.l2_bytes;
  const double loading = loading_clocks(stage);
  const double storing = written * (plan.stores_channels ? kStoredInPieces : kStoredInRows);
  const double step_issue =
      extent.warps() * (extent.warp_m / 16.0 * extent.warp_n / 8.0 * (plan.terms == 2 ? 4 : 1) + 12);
  const double issued =
      (loads * loading / kLoaderClocks * kSourceWarps + storing / 32 + steps * step_issue) / (kSchedulers * kIssued);
  const double torn = plan.stores_channels || plan.joins_width ? 1 : 2;  // sectors that several blocks write
  const double memory_bytes = device.bytes_per_ms / device.clocks_per_ms / device.multiprocessors;
  const double memory =
      (written * torn + read * (1 + kShortRun / run_bytes(plan, element_bytes))) * element_bytes / memory_bytes;
  const double slowest = std::max({products, shared_memory, l2, memory, issued});
  const double others = products + shared_memory + l2 + memory + issued - slowest;
  const double work = slowest + kDisturbance * others;

  // Of a box, of one block.
  const double multiplying = std::max(steps * step_products, steps * step_shared / device.rates.shared_bytes) +
                             loads * kStageWait + plan.block_phases * kPhaseWait +
                             storing / (32 * kSchedulers * kIssued) +
                             (plan.weights_stay ? 0 : steps / plan.slot_steps * kSlotWait);
  const double arriving = loading + std::max(l2, memory) / loads;
  const double stage_load = copies(plan.way) ? std::max(loading, (arriving + kMemoryLatency) / plan.ahead) : arriving;
  const double weight_load =
      plan.weights_stay ? 0 : steps / plan.slot_steps * kWeightLatency / std::max(1, plan.slots - 1);
  const double source_load = kBoxWait + loads * stage_load;
  const double alone = plan.buffers > 1 ? std::max({source_load, weight_load, multiplying})
                                        : source_load + std::max(weight_load, multiplying);
  const double begin =
      kBlockWait + (plan.weights_stay ? plan.weight_steps * step_bytes(extent, plan.terms) / device.rates.l2_bytes : 0);

  // Blocks keep their share. Few walkers leave multiprocessors idle, many begin often.
  const int64_t boxes = plan.box_count();
  const int64_t shares = plan.shares();
  plan.cost_ms = 0;
  for (int64_t waves = 1; waves <= kMostWaves; ++waves) {
    const int64_t room = int64_t{waves} * device.multiprocessors * plan.blocks_at_once;
    const int64_t most = std::clamp<int64_t>(room / shares, 1, boxes);
    const int64_t rounds = ceil_div(boxes, most);
    const int64_t walkers = ceil_div(boxes, rounds);
    const int64_t of_multiprocessor = ceil_div(shares * walkers, device.multiprocessors);
    const int64_t at_once = std::min<int64_t>(of_multiprocessor, plan.blocks_at_once);
    const double each = begin + static_cast<double>(rounds) * std::max(alone, static_cast<double>(at_once) * work);
    const double cost = static_cast<double>(ceil_div(of_multiprocessor, at_once)) * each / device.clocks_per_ms;
    if (waves > 1 && cost >= plan.cost_ms) continue;
    plan.cost_ms = cost;
    plan.walkers = walkers;
  }
}

}  // namespace convt3d::mma
