// A model, not a measurement: a multiprocessor multiplies, reads and writes shared memory, issues the loaders'
// instructions and reads L2 at the same time, and the slowest of them counts, box by box.
#include "engines/mma/weight_grad_cost.h"

#include <algorithm>
#include <cmath>

#include "core/integer.h"
#include "engines/mma/load_cost.h"

namespace convt3d::mma {
namespace {

// Clocks of a multiprocessor.
constexpr double kBox = 200;     // barriers
constexpr double kBlock = 3500;  // the first box, and what begins and ends a block
constexpr double kLaunchMs = 0.003;

}  // namespace

double position_clocks(double fragments, int32_t columns, double grad_channels, double input_channels,
                       const WeightGradPlan& plan, const DeviceTraits& device) {
  const double words = plan.element_bytes == 4 ? 2 : 1;
  const double products =
      fragments * columns * words * device.rates.product_clocks * (plan.terms == 2 ? 3 : 1) / kGradStep;
  const double reads =
      words * (512 * fragments + kGradWarps * (256.0 * columns + 256)) / device.rates.shared_bytes / kGradStep;
  const auto loads = [&](LoadWay way) { return way == LoadWay::kCopy ? 1 : way == LoadWay::kRows ? 2.5 : 4; };
  const double bytes = plan.element_bytes * (grad_channels + input_channels);
  const double loading = plan.element_bytes / double{kPieceBytes} *
                         (grad_channels * loads(plan.layouts.grad) + input_channels * loads(plan.layouts.input)) *
                         kCopyInstructions * kLoaderClocks / kLoadingThreads;
  const double l2 = bytes / device.rates.l2_bytes;
  return std::max({products, reads + 2 * bytes / device.rates.shared_bytes, loading, l2}) +
         0.1 * (products + reads + loading + l2);
}

void set_cost(WeightGradPlan& plan, const DeviceTraits& device) {
  const LoadedTile grad{plan.grad,           plan.grad_shape, plan.layouts.grad,
                        plan.layouts.masked, plan.terms == 1, plan.element_bytes};
  const LoadedTile input{plan.input, plan.input_shape, plan.layouts.input, false, plan.terms == 1, plan.element_bytes};
  const double fragments = static_cast<double>(ceil_div(plan.most_fragments(), plan.warps_m));
  const double k_steps = static_cast<double>(ceil_div(plan.steps, plan.warps_k));
  const double words = plan.element_bytes == 4 ? 2 : 1;  // products of a step, one after another
  const double products =
      kGradWarps * k_steps * fragments * plan.columns * words * device.rates.product_clocks * (plan.terms == 2 ? 3 : 1);
  const double shared = (kGradWarps * k_steps * words * (512 * fragments + 256.0 * plan.columns + 256) +
                         staging_bytes(grad) + staging_bytes(input)) /
                        device.rates.shared_bytes;
  const double loading = loading_clocks(grad) + loading_clocks(input);
  const double l2 = (source_bytes(grad) + source_bytes(input)) / device.rates.l2_bytes;
  // A box is awaited before the one after those that are on their way is begun.
  const double arriving = (loading + kMemoryLatency + l2) / plan.ahead;
  const double box =
      std::max({products, shared, loading, l2, arriving}) + 0.1 * (products + shared + loading + l2) + kBox;

  const double sums = static_cast<double>(plan.warps_groups) * plan.most_fragments() * 16 * plan.n_chunk;
  const double segments = static_cast<double>(ceil_div(plan.split_boxes, plan.segment_boxes));
  const double storing = (2 * segments - 1) * sums * 4 * plan.warps_k / device.rates.l2_bytes;
  const int64_t blocks = plan.tiles() * plan.splits;
  const double waves = static_cast<double>(ceil_div(blocks, device.multiprocessors));
  const double computing = waves * (static_cast<double>(plan.split_boxes) * box + storing + kBlock);

  // Each tensor comes from memory once at least; few multiprocessors ask for less than it has.
  double elements = 0;
  {
    double of_grad = static_cast<double>(plan.batch * plan.groups) * plan.row_channels;
    double of_input = static_cast<double>(plan.batch * plan.groups) * plan.n_channels;
    for (std::size_t i = 0; i < 3; ++i) {
      of_grad *= plan.grad.axis[i].source_size;
      of_input *= plan.input.axis[i].source_size;
    }
    elements = of_grad * (plan.layouts.masked ? 2 : 1) + of_input;
  }
  const double asking = static_cast<double>(std::min<int64_t>(blocks, device.multiprocessors));
  const double memory_ms = elements * plan.element_bytes / device.bytes_per_ms *
                           std::min(static_cast<double>(device.multiprocessors) / asking, 4.0);
  const double partial_bytes = 4.0 * static_cast<double>(plan.slots() * plan.slot_elements());
  const double summing_ms = partial_bytes / (device.rates.l2_bytes / 3 * device.multiprocessors * device.clocks_per_ms);
  plan.cost_ms = std::max(computing / device.clocks_per_ms, memory_ms) + summing_ms + kLaunchMs;
}

}  // namespace convt3d::mma
