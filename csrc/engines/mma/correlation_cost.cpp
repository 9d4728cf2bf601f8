// A model, not a measurement: a multiprocessor multiplies, reads shared memory, reads L2 and moves memory at the same
// time, and the slowest of them counts; what a block waits for counts once for all blocks that are at work together.
#include "engines/mma/correlation_cost.h"

#include <algorithm>

#include "core/integer.h"

namespace convt3d::mma {
namespace {

// Clocks of a multiprocessor of compute capability 8.0.
constexpr double kProduct = 2;        // 16 x 8 x 32 bytes
constexpr double kMatrices = 4;       // 512 bytes of shared memory or L1
constexpr double kL2Bytes = 32;       // a clock
constexpr double kMemoryBytes = 11;   // a clock
constexpr double kCopiedPiece = 0.3;  // instructions of the loader
constexpr double kGatheredPiece = 0.8;
constexpr double kStageWait = 900;        // a stage, from its first load to its barrier, that nothing hides
constexpr double kHiddenStageWait = 150;  // ... behind the products of the stages before
constexpr double kPhaseWait = 400;        // tables and barriers of storing
constexpr double kBlockWait = 2500;
constexpr double kClocksPerMs = 1.5e6;
constexpr double kSharedOfMultiprocessor = 1024;  // that a block takes beside its own, and the limit leaves out

}  // namespace

void set_cost(CorrelationPlan& plan, int32_t element_bytes, const Layouts& layouts, const Limits& limits) {
  const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
  const double phases_of_all = static_cast<double>(plan.phases());
  const double share = plan.block_phases / phases_of_all;  // of a box's phases in a block
  const double steps = static_cast<double>(plan.taps()) * plan.chunks * plan.chunk_steps * share;
  const double warps = extent.warps_m * extent.warps_n;
  const bool resident = plan.stages() == 1;
  const double loads = plan.stages() * (resident ? 1.0 : plan.block_phases);
  const double pieces = loads * plan.tile.staged_rows() * plan.tile.pieces;

  const double products = steps * (extent.m() / 16) * (extent.n() / 8) * kProduct * (plan.terms == 2 ? 3 : 1);
  const double matrices =
      steps * warps * kMatrices * (extent.warp_m / 16 + plan.terms * std::max(extent.warp_n / 16.0, 0.5)) +
      pieces * kPieceBytes / 512 * kMatrices * 2;
  const double l2 = (steps * extent.n() * kStepBytes * plan.terms + pieces * kPieceBytes) / kL2Bytes;
  const double loading = pieces * (layouts.way == LoadWay::kCopy ? kCopiedPiece : kGatheredPiece);
  double written = static_cast<double>(plan.tile.images) * plan.block_phases * std::min(extent.n(), plan.n_channels);
  double read = static_cast<double>(plan.tile.images) * plan.k_channels * share / plan.n_blocks;
  for (size_t i = 0; i < 3; ++i) {
    written *= plan.box[i];
    read *= plan.box[i] * plan.axis[i].src_step;
  }
  const double torn = plan.stores_channels || plan.joins_width ? 1 : 2;  // sectors that several blocks write
  const double memory = (written * torn + read) * element_bytes / kMemoryBytes;

  const auto at_once = std::clamp<int64_t>(
      (limits.shared_bytes + kSharedOfMultiprocessor) / (plan.shared_bytes + kSharedOfMultiprocessor), 1,
      extent.blocks);
  const double work =
      std::max({products, matrices + loading / 2, l2, memory}) + 0.15 * (products + matrices + loading + l2 + memory);
  const double wait = kBlockWait + plan.block_phases * kPhaseWait +
                      loads * (plan.buffers > 1 || resident ? kHiddenStageWait : kStageWait) + kStageWait;
  const int64_t blocks_each = ceil_div(plan.blocks(), limits.multiprocessors);
  const double clocks =
      static_cast<double>(blocks_each) * work + static_cast<double>(ceil_div(blocks_each, at_once)) * wait;
  plan.cost_ms = clocks / kClocksPerMs;
}

}  // namespace convt3d::mma
