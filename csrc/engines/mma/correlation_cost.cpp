// A model, not a measurement. A multiprocessor multiplies, reads shared memory, reads L2, moves memory and issues
// instructions at the same time: the slowest of these bounds what many blocks take. A block alone waits for its loads
// and for each of its products: that bounds what few blocks take.
#include "engines/mma/correlation_cost.h"

#include <algorithm>

#include "core/integer.h"

namespace convt3d::mma {
namespace {

// Clocks of a multiprocessor of compute capability 8.0.
constexpr double kProduct = 2;          // 16 x 8 x 32 bytes
constexpr double kSchedulers = 4;       // each with a share of the tensor cores
constexpr double kMatrices = 4;         // 512 bytes of shared memory or L1
constexpr double kRow = 1;              // of a staged row, another line of memory
constexpr double kL2Bytes = 30;         // a clock
constexpr double kMemoryBytes = 11;     // a clock
constexpr double kInstructions = 0.01;  // of one thread, where 100 threads issue in a clock
constexpr double kCopiedPiece = 45;     // instructions
constexpr double kGatheredPiece = 50;   // ... beside those of each element
constexpr double kGatheredElement = 6;
constexpr double kStoredInPieces = 1.5;  // ... of an element
constexpr double kStoredInRows = 6;
constexpr double kStepWait = 40;    // of a warp for shared memory, before its products
constexpr double kLoadWait = 1000;  // of a block for the first bytes of a stage
constexpr double kStageWait = 100;  // for a stage that is there
constexpr double kPhaseWait = 600;  // for tables and barriers of storing
constexpr double kBlockWait = 2000;
constexpr double kClocksPerMs = 1.5e6;
constexpr double kSharedOfBlock = 1024;  // that a block takes beside its own

}  // namespace

void set_cost(CorrelationPlan& plan, int32_t element_bytes, const Limits& limits) {
  const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
  const double share = static_cast<double>(plan.block_phases) / static_cast<double>(plan.phases());
  const double steps = static_cast<double>(plan.taps()) * plan.chunks * plan.chunk_steps * share;
  const double warps = extent.warps_m * extent.warps_n;
  const bool resident = plan.stages() == 1;
  const double loads = plan.stages() * (resident ? 1.0 : plan.block_phases);
  const double stage_pieces = static_cast<double>(plan.tile.staged_rows()) * plan.tile.pieces;
  const double pieces = loads * stage_pieces;
  const double products_of_step = (extent.m() / 16) * (extent.n() / 8) * kProduct * (plan.terms == 2 ? 3 : 1);

  double written = static_cast<double>(plan.tile.images) * plan.block_phases * std::min(extent.n(), plan.n_channels);
  double read = static_cast<double>(plan.tile.images) * plan.k_channels * share / plan.n_blocks;
  for (size_t i = 0; i < 3; ++i) {
    written *= plan.box[i];
    read *= plan.box[i] * plan.axis[i].src_step;
  }

  const double products = steps * products_of_step;
  const double conflicts = 1 + plan.tile.conflicts / 64.0;  // a read of each
  const double matrices =
      steps * warps * kMatrices * (extent.warp_m / 16 * conflicts + plan.terms * std::max(extent.warp_n / 16.0, 0.5)) +
      pieces * (kPieceBytes / 512.0 * kMatrices * 2 + kRow / plan.tile.pieces);
  const double l2 = (steps * extent.n() * kStepBytes * plan.terms + pieces * kPieceBytes) / kL2Bytes;
  const double in_piece = static_cast<double>(kPieceBytes) / element_bytes;
  const double loading = plan.way == LoadWay::kCopy ? kCopiedPiece
                                                    : kGatheredPiece + kGatheredElement * in_piece /
                                                                           (plan.way == LoadWay::kWidthPairs ? 2 : 1);
  const double issued =
      kInstructions * (pieces * loading + written * (plan.stores_channels ? kStoredInPieces : kStoredInRows)) +
      0.3 * products;
  const double torn = plan.stores_channels || plan.joins_width ? 1 : 2;  // sectors that several blocks write
  const double memory = (written * torn + read) * element_bytes / kMemoryBytes;
  const double work = std::max({products, matrices, l2, memory, issued});

  const double warps_of_scheduler = std::max(warps / kSchedulers, 1.0);
  const double step_alone = std::max(products_of_step, products_of_step / warps_of_scheduler + kStepWait);
  const double load_alone = kLoadWait + stage_pieces * kPieceBytes / kL2Bytes + kInstructions * stage_pieces * loading;
  const double hidden = plan.buffers > 1 ? steps * step_alone / loads : 0;  // products of the stage before
  const double alone = kBlockWait + load_alone + (loads - 1) * (kStageWait + std::max(0.0, load_alone - hidden)) +
                       steps * step_alone + plan.block_phases * kPhaseWait +
                       written * element_bytes / (2 * kMemoryBytes);

  const auto at_once =
      std::clamp<int64_t>(static_cast<int64_t>((static_cast<double>(limits.shared_bytes) + kSharedOfBlock) /
                                               (plan.shared_bytes + kSharedOfBlock)),
                          1, extent.blocks);
  const int64_t blocks_each = ceil_div(plan.blocks(), limits.multiprocessors);
  const double bound_by_work = static_cast<double>(blocks_each) * work + load_alone;
  const double bound_by_waits = static_cast<double>(ceil_div(blocks_each, at_once)) * alone;
  // Neither alone: what a block waits for, others fill in part.
  const double clocks = std::max(bound_by_work, bound_by_waits) + 0.3 * std::min(bound_by_work, bound_by_waits);
  plan.cost_ms = clocks / kClocksPerMs;
}

}  // namespace convt3d::mma
