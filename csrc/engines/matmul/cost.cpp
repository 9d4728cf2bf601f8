#include "engines/matmul/cost.h"

#include <algorithm>

#include "core/integer.h"
#include "core/multiprocessor.h"

namespace convt3d {
namespace {

// Of what a multiprocessor does at most, and instructions and clocks of this engine's code. Fitted on an H100 to
// 582 plans for 12 layers in float16, TF32 and float32 proper; shares were set.
constexpr double kTensorShare = 0.7;
constexpr double kSharedShare = 0.8;
constexpr double kL2Share = 0.7;
constexpr double kStartClocks = 7200;    // from the launch to the first stage
constexpr double kStageClocks = 250;     // that a block waits for each stage, however many are on their way
constexpr double kAheadClocks = 480;     // that it waits besides, where only one is
constexpr double kTileClocks = 288;      // that it takes to hand over 8 KB of outputs
constexpr double kProductsAlone = 0.62;  // of the clocks of a tile's products, while nothing else is done
constexpr double kLoadInstructions = 21;
constexpr double kStoreInstructions = 26;
constexpr double kRoundInstructions = 1.65;
constexpr double kTermsInstructions = 5;  // in place of one that rounds
constexpr double kTileInstructions = 100;
constexpr double kAlongside = 0.1;  // of what is not the slowest

}  // namespace

double matmul_cost_ms(const MatmulPlan& plan, int64_t fit, const DeviceTraits& device) {
  const auto [m, n, warps_m, warps_n] = plan.extent();
  const bool words = plan.element_bytes == 4;
  const double products = plan.terms == 2 ? 3 : 1;
  const double warps = warps_m * warps_n;
  const double stages = plan.k_stages;
  constexpr double kSteps = kMatmulStageBytes / 32.0;
  // Of one tile, in bytes.
  const double input = static_cast<double>(m) * kMatmulStageBytes * stages;
  const double weight = static_cast<double>(n) * kMatmulStageBytes * stages;
  const double loaded = input + (plan.resident ? 0 : weight);
  const double output = static_cast<double>(m) * n * plan.element_bytes;
  // In clocks of a multiprocessor.
  const double multiplied = m / 16.0 * (n / 8.0) * kSteps * stages * products;
  const double tensor = multiplied * device.rates.product_clocks;
  const double l2 = (loaded + output) / (kL2Share * device.rates.l2_bytes);
  const double shared =
      (loaded + input * warps_n + weight * warps_m + 2 * output) / (kSharedShare * device.rates.shared_bytes);
  const double fragments = m / 16.0 / warps_m;  // of a warp
  const double columns = n / 8.0 / warps_n;
  const double by_words = words && plan.rows == MatmulRows::kPositions ? 4 : 1;
  const double read = kSteps * stages * warps * (fragments * by_words + columns * (words ? 2 : 0.5));
  const double rounded =
      words ? kSteps * stages * warps * (fragments * 4 + columns * 2) * (plan.terms == 2 ? kTermsInstructions : 1) : 0;
  const double instructions = multiplied + read + kRoundInstructions * rounded +
                              kLoadInstructions * (input / plan.copied_bytes + (loaded - input) / 16) / 32 +
                              kStoreInstructions * output / (plan.store.elements * plan.element_bytes) / 32 +
                              3.0 * m * n / 32 + kTileInstructions * warps;
  const double together = std::max({tensor / kTensorShare, l2, shared, instructions / (kSchedulers * kIssued)});
  const double waited = stages * (kStageClocks + kAheadClocks / (plan.buffers - 1)) + kProductsAlone * tensor +
                        kTileClocks * output / 8192;

  const int64_t blocks = plan.blocks();
  const auto rounds = static_cast<double>(ceil_div(blocks, fit * device.multiprocessors));
  const auto tiles = static_cast<double>(ceil_div(plan.m_tiles, plan.walkers));
  const auto beside = static_cast<double>(std::min(fit, ceil_div(blocks, device.multiprocessors)));
  const double own_ms = rounds * tiles * (beside * together + waited) / device.clocks_per_ms;
  const double moved = plan.groups *
                       (static_cast<double>(plan.positions) * (plan.in_channels + static_cast<double>(plan.columns)) +
                        static_cast<double>(plan.in_channels) * plan.columns) *
                       plan.element_bytes;
  const double memory_ms = moved / (device.memory.ahead * device.bytes_per_ms);
  return device.launches.next + kStartClocks / device.clocks_per_ms + at_once({memory_ms, own_ms}, kAlongside);
}

}  // namespace convt3d
