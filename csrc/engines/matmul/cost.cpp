#include "engines/matmul/cost.h"

#include <algorithm>

#include "core/integer.h"
#include "core/multiprocessor.h"

namespace convt3d {
namespace {

// Of what a multiprocessor does at most, and instructions and clocks of this engine's code. Fitted on an H200 to the
// plans of 11 layers' forwards and input gradients in float16, TF32 and float32 proper; shares were set.
constexpr double kTensorShare = 0.7;
constexpr double kSharedShare = 0.8;
constexpr double kL2Share = 0.7;
constexpr double kStartClocks = 4800;    // from the launch to the first stage
constexpr double kStageClocks = 446;     // that a team waits for each stage, however many are on their way
constexpr double kOnceClocks = 138;      // besides, where it rounds what it has copied
constexpr double kTileClocks = 83;       // that it takes to hand over 8 KB of results
constexpr double kJoinClocks = 600;      // of each team, that its sums are joined in
constexpr double kSplitClocks = 4500;    // of splits, until the last one knows that it is
constexpr double kProductsAlone = 0.69;  // of the clocks of a tile's products, while nothing else is done
constexpr double kLoadInstructions = 19.2;
constexpr double kWalkInstructions = 14.7;  // of a gradient's piece, by positions
constexpr double kStoreInstructions = 15;
constexpr double kRoundInstructions = 2.5;
constexpr double kTermsInstructions = 8.1;  // in place of those that round
constexpr double kTileInstructions = 150;
// Of the time that memory takes at its rate, while as many bytes are on their way as its latency asks for.
constexpr double kWaiting = 0.43;
constexpr double kAlongside = 0.104;  // of what is not the slowest

}  // namespace

double matmul_cost_ms(const MatmulPlan& plan, int64_t fit, const DeviceTraits& device) {
  const auto [m, n, warps] = plan.extent();
  const auto [warps_m, warps_n] = plan.warps();
  const bool words = plan.element_bytes == 4;
  const double products = plan.terms == 2 ? 3 : 1;
  const double stages = plan.split_stages();
  const double steps =
      plan.splits > 1 ? stages * kMatmulStageSteps : (stages - 1) * kMatmulStageSteps + plan.last_steps();
  // Of one tile, in bytes.
  const double source = static_cast<double>(m) * kMatmulStageBytes * stages;
  const double weight = static_cast<double>(n) * kMatmulStageBytes * stages;
  const auto tiles = static_cast<double>(ceil_div(plan.m_tiles, plan.walkers));
  // Weights that stay come with a block's first tile.
  const double loaded = source + weight / (plan.resident ? tiles : 1);
  const double output = static_cast<double>(m) * n * plan.element_bytes;
  // In clocks of a multiprocessor.
  const double multiplied = m / 16.0 * (n / 8.0) * steps * products;
  const double tensor = multiplied * device.rates.product_clocks;
  const double l2 = (loaded + (plan.spread - 1) * source + output) / (kL2Share * device.rates.l2_bytes);
  const double shared =
      (loaded + source * warps_n + weight * warps_m + 2 * output) / (kSharedShare * device.rates.shared_bytes);
  const double fragments = m / 16.0 / warps_m;  // of a warp
  const double columns = n / 8.0 / warps_n;
  const bool is_gradient = plan.op == Operator::kInputGrad;
  const bool by_words = plan.rows != MatmulRows::kChannels && (words || plan.rows != MatmulRows::kPositions);
  const double read = steps * warps * (fragments * (by_words ? 4 : 1) + columns * (words && !is_gradient ? 2 : 0.5));
  // Words: what each thread has copied is read, rounded and stored once, or fragments are in registers.
  const bool once = words && plan.terms == 1 && plan.teams == 1;
  const double of_fragments = steps * warps * (fragments * 4 + columns * 2);
  const double rounded = once              ? loaded / 4 / 32 * kRoundInstructions + loaded / 16 / 32 * 2
                         : plan.terms == 2 ? of_fragments * kTermsInstructions
                         : words           ? of_fragments * kRoundInstructions
                                           : 0;
  const double instructions =
      multiplied + read + rounded +
      ((is_gradient && plan.by_positions ? kWalkInstructions : kLoadInstructions) * source / plan.copied_bytes +
       kLoadInstructions * (loaded - source) / 16) /
          32 +
      kStoreInstructions * output / (plan.store.elements * plan.element_bytes) / 32 + 3.0 * m * n / 32 +
      kTileInstructions * warps;
  const double together = std::max({tensor / kTensorShare, l2, shared, instructions / (kSchedulers * kIssued)});
  // Each split leaves its sums, and the last one reads all.
  const double left = plan.splits > 1 ? static_cast<double>(m) * n * sizeof(float) * (1 + plan.splits) : 0;
  const double waited = left / (kL2Share * device.rates.l2_bytes) + (plan.splits > 1 ? kSplitClocks : 0) +
                        (stages * (kStageClocks + (once ? kOnceClocks : 0)) + kProductsAlone * tensor) / plan.teams +
                        kTileClocks * output / 8192 + (plan.teams > 1 ? kJoinClocks * plan.teams : 0);

  const int64_t blocks = plan.blocks();
  const auto rounds = static_cast<double>(ceil_div(blocks, fit * device.multiprocessors));
  const auto beside = static_cast<double>(std::min(fit, ceil_div(blocks, device.multiprocessors)));
  const double own_ms = rounds * tiles * (beside * together + waited) / device.clocks_per_ms;
  const double moved = plan.groups *
                       (static_cast<double>(plan.positions) * (plan.k + static_cast<double>(plan.columns)) +
                        static_cast<double>(plan.k) * plan.columns) *
                       plan.element_bytes;
  const double on_way = beside * plan.teams * (plan.buffers - 1) * (m + (plan.resident ? 0 : n)) * kMatmulStageBytes;
  const double asked_for =
      device.bytes_per_ms / device.clocks_per_ms / device.multiprocessors * device.memory.latency_clocks;
  const double memory_ms = moved / (device.memory.ahead * device.bytes_per_ms) * (1 + kWaiting * asked_for / on_way);
  // Counters of splits begin at zero.
  const double counting = device.begins_early() ? device.launches.early : device.launches.next;
  return device.launches.next + (plan.splits > 1 ? counting : 0) + kStartClocks / device.clocks_per_ms +
         at_once({memory_ms, own_ms}, kAlongside);
}

}  // namespace convt3d
