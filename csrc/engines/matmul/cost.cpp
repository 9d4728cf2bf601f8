#include "engines/matmul/cost.h"

#include <algorithm>

#include "core/integer.h"
#include "core/multiprocessor.h"

namespace convt3d {
namespace {

// Of what a multiprocessor does at most, and instructions and clocks of this engine's code. Fitted on an H100 to
// 1,526 plans, of 12 layers' forwards and input gradients in float16, TF32 and float32 proper; shares were set.
constexpr double kTensorShare = 0.7;
constexpr double kSharedShare = 0.8;
constexpr double kL2Share = 0.7;
constexpr double kStartClocks = 6000;    // from the launch to the first stage
constexpr double kStageClocks = 370;     // that a team waits for each stage, however many are on their way
constexpr double kAheadClocks = 85;      // that it waits besides, where only one is
constexpr double kTileClocks = 128;      // that it takes to hand over 8 KB of results
constexpr double kJoinClocks = 600;      // of each team, that its sums are joined in
constexpr double kProductsAlone = 0.76;  // of the clocks of a tile's products, while nothing else is done
constexpr double kLoadInstructions = 14.2;
constexpr double kWalkInstructions = 6.1;  // of a gradient's piece, by positions
constexpr double kStoreInstructions = 24.8;
constexpr double kRoundInstructions = 1.78;
constexpr double kTermsInstructions = 5;  // in place of one that rounds
constexpr double kTileInstructions = 100;
// Of the time that memory takes at its rate, while as many bytes are on their way as its latency asks for.
constexpr double kWaiting = 0.3;
constexpr double kAlongside = 0.135;  // of what is not the slowest

}  // namespace

double matmul_cost_ms(const MatmulPlan& plan, int64_t fit, const DeviceTraits& device) {
  const auto [m, n, warps] = plan.extent();
  const auto [warps_m, warps_n] = plan.warps();
  const bool words = plan.element_bytes == 4;
  const double products = plan.terms == 2 ? 3 : 1;
  const double stages = plan.k_stages;
  constexpr double kSteps = kMatmulStageBytes / 32.0;
  // Of one tile, in bytes.
  const double source = static_cast<double>(m) * kMatmulStageBytes * stages;
  const double weight = static_cast<double>(n) * kMatmulStageBytes * stages;
  const auto tiles = static_cast<double>(ceil_div(plan.m_tiles, plan.walkers));
  // Weights that stay come with a block's first tile.
  const double loaded = source + weight / (plan.resident ? tiles : 1);
  const double output = static_cast<double>(m) * n * plan.element_bytes;
  // In clocks of a multiprocessor.
  const double multiplied = m / 16.0 * (n / 8.0) * kSteps * stages * products;
  const double tensor = multiplied * device.rates.product_clocks;
  const double l2 = (loaded + (plan.spread - 1) * source + output) / (kL2Share * device.rates.l2_bytes);
  const double shared =
      (loaded + source * warps_n + weight * warps_m + 2 * output) / (kSharedShare * device.rates.shared_bytes);
  const double fragments = m / 16.0 / warps_m;  // of a warp
  const double columns = n / 8.0 / warps_n;
  const bool is_gradient = plan.op == Operator::kInputGrad;
  const bool by_words = plan.rows != MatmulRows::kChannels && (words || plan.rows != MatmulRows::kPositions);
  const double read =
      kSteps * stages * warps * (fragments * (by_words ? 4 : 1) + columns * (words && !is_gradient ? 2 : 0.5));
  const double rounded =
      words ? kSteps * stages * warps * (fragments * 4 + columns * 2) * (plan.terms == 2 ? kTermsInstructions : 1) : 0;
  const double instructions =
      multiplied + read + kRoundInstructions * rounded +
      ((is_gradient && plan.by_positions ? kWalkInstructions : kLoadInstructions) * source / plan.copied_bytes +
       kLoadInstructions * (loaded - source) / 16) /
          32 +
      kStoreInstructions * output / (plan.store.elements * plan.element_bytes) / 32 + 3.0 * m * n / 32 +
      kTileInstructions * warps;
  const double together = std::max({tensor / kTensorShare, l2, shared, instructions / (kSchedulers * kIssued)});
  const double waited =
      (stages * (kStageClocks + kAheadClocks / (plan.buffers - 1)) + kProductsAlone * tensor) / plan.teams +
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
  return device.launches.next + kStartClocks / device.clocks_per_ms + at_once({memory_ms, own_ms}, kAlongside);
}

}  // namespace convt3d
