// A model: a multiprocessor multiplies, reads shared memory and has boxes copied at the same time, and the slowest of
// them counts, box by box.
#include "engines/wgmma/weight_grad/cost.h"

#include <algorithm>

#include "core/integer.h"

namespace convt3d {
namespace {

constexpr double kColumnClocks = 0.5;      // of an instruction of 64 rows and 16 positions, a column: the units' peak
constexpr double kProductOverhead = 1.15;  // of the units' peak
// What TMA takes for a row of a box, as for the other kernels of this engine.
constexpr double kRowClocks = 2.92 + 128 * 0.00204;
constexpr double kL2Share = 0.9;       // of the rate of L2
constexpr double kBoxClocks = 60;      // until both warpgroups have gone on
constexpr double kAlongside = 0.08;    // of what is not slowest, that adds to what is
constexpr double kStartClocks = 4000;  // until the first box is there, and what ends a block
constexpr double kStoreShare = 0.44;   // of the rate of L2, of partial gradients that are stored
constexpr double kSumShare = 0.2;      // ... that are added

double at_once(double a, double b, double c, double d) {
  const double slowest = std::max({a, b, c, d});
  return slowest + kAlongside * (a + b + c + d - slowest);
}

}  // namespace

void set_cost(WgmmaWeightGradPlan& plan, const DeviceTraits& device) {
  const auto rows = [&](const WgmmaGradTile& tile) {
    return static_cast<double>(tile.panels) * plan.images * tile.extent[0] * tile.extent[1] * tile.extent[2];
  };
  const double columns = plan.instruction.columns();
  const double instructions = 2.0 * plan.steps * plan.instruction.sets;  // of both warpgroups
  const double products = instructions * kColumnClocks * columns * kProductOverhead;
  const double operand_bytes = kWgmmaGradStep * 2.0 * (kWgmmaGradPanelChannels + columns);
  const double shared = instructions * operand_bytes / device.rates.shared_bytes;
  const double copied_rows = rows(plan.input) + rows(plan.grad);
  const double l2 = copied_rows * kWgmmaGradRowBytes / (kL2Share * device.rates.l2_bytes);

  // Each tensor comes from memory once at least.
  double elements = static_cast<double>(plan.batch) * plan.groups * plan.in_channels;
  double grad_elements = static_cast<double>(plan.batch) * plan.groups * plan.out_channels;
  for (std::size_t i = 0; i < 3; ++i) {
    elements *= static_cast<double>(plan.boxes[i + 1]) * plan.box[i];
    grad_elements *=
        static_cast<double>(plan.boxes[i + 1]) * plan.box[i] * std::min(plan.taps[i].residues, plan.taps[i].taps);
  }
  const auto multiprocessors = static_cast<double>(device.multiprocessors);
  const double asking = static_cast<double>(std::min<int64_t>(plan.blocks(), device.multiprocessors));
  const double memory_ms = 2 * (elements + grad_elements) / (device.memory.boxes * device.bytes_per_ms) *
                           std::min(multiprocessors / asking, 4.0);
  const auto waves = static_cast<double>(ceil_div(plan.blocks(), device.multiprocessors));
  const double boxes = waves * static_cast<double>(plan.split_boxes);
  const double box =
      at_once(std::max(products, shared), copied_rows * kRowClocks, l2, memory_ms * device.clocks_per_ms / boxes) +
      kBoxClocks;
  const double sums = 2.0 * kWgmmaGradPanelChannels * columns * plan.instruction.sets;
  const auto segments = static_cast<double>(ceil_div(plan.split_boxes, plan.segment_boxes));
  const double storing = (2 * segments - 1) * sums * 4 / (kStoreShare * device.rates.l2_bytes);
  const double first = device.memory.latency_clocks + kStartClocks;
  const double summing_ms = static_cast<double>(plan.workspace_bytes()) /
                            (kSumShare * device.rates.l2_bytes * multiprocessors * device.clocks_per_ms);
  plan.cost_ms = (boxes * box + waves * (first + storing)) / device.clocks_per_ms + summing_ms + device.launches.summed;
}

}  // namespace convt3d
