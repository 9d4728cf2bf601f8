// A model, not a measurement: a multiprocessor multiplies, reads and writes shared memory, issues instructions and
// moves memory at the same time, and the slowest of these counts most, box by box. What multiprocessors do of what they
// could is fitted to the times of single gradients.
#include "engines/mma/backward/cost.h"

#include <algorithm>

#include "core/integer.h"
#include "engines/mma/correlation/memory.h"
#include "engines/mma/tile/load_cost.h"
#include "engines/mma/tile/multiprocessor_cost.h"
#include "engines/mma/weight_grad/cost.h"

namespace convt3d::mma {
namespace {

// Clocks of a multiprocessor.
constexpr double kBox = 300;      // a box: barriers, and finding out where sums are stored
constexpr double kBlock = 6000;   // a block: weights, the first box, and what begins and ends it
constexpr double kShortRun = 32;  // bytes that a run of memory costs beside its own
// Instructions of a warp.
constexpr double kRounded = 2;               // rounding a word
constexpr double kParted = 6;                // taking a word apart into two terms
constexpr double kPairsLatency = 70;         // clocks of a step of the input gradient's width pairs; set by hand
constexpr double kPairsParted = 4;           // taking a fragment of width pairs apart into taps
constexpr double kWarpgroupProducts = 0.62;  // clocks of wgmma for those of mma.sync
constexpr double kWarpgroupStep = 60;        // clocks until a step's product is done; set by hand
constexpr double kRowSums = 4;               // adding a fragment's rows of float32 for the bias
constexpr double kStoredInRows = 2.5;        // storing 32 elements as rows along the width
constexpr double kStoredInMatrices = 1.2;    // storing 32 elements as rows that were staged as matrices

// Bytes of memory that a tile costs: `channels` of a group, which lie beside each other along the width where there is
// one group.
double memory_bytes(const LoadedTile& loaded, double channels, bool one_group) {
  const TileAxis& width = loaded.tile.axis[2];
  const double rows = loaded.tile.staged_rows();
  const double run = loaded.way == LoadWay::kRows    ? 1.0 * loaded.shape.raw.span
                     : has_channel_rows(loaded.way)  ? 1.0 * width.length
                     : loaded.way == LoadWay::kWidth ? 1.0 * width.box
                                                     : channels * (one_group ? width.rows() : 1);
  return rows * channels * (loaded.element_bytes + kShortRun / run) * (loaded.masked ? 2 : 1);
}

}  // namespace

double backward_cost_ms(const BackwardPlan& plan, const DeviceTraits& device) {
  const WeightGradPlan& grad = plan.grad;
  const ShapeExtent extent = shape_extent(plan.input.shape, grad.terms);
  const double words = grad.element_bytes == 4 ? 2 : 1;  // products of sixteen positions, one after another
  const double terms = grad.terms == 2 ? 3 : 1;
  const bool rounds_words = grad.element_bytes == 4 && grad.terms == 1 && !grad.pairs.exist;
  const double of_word = rounds_words ? kRounded : grad.terms == 2 ? kParted : 0;

  // Of a box: the weight gradient,
  const double fragments = static_cast<double>(ceil_div(grad.most_fragments(), grad.warps_m));
  const double k_steps = static_cast<double>(ceil_div(grad.steps, grad.warps_k));
  double products = kGradWarps * k_steps * fragments * grad.columns * words;
  // Rows that are summed for the bias: of float32 by additions, of 16 bits by products.
  const double summed = grad.bias == BiasSums::kMultiplyingWarps ? fragments / grad.warps_n : 0;
  const double of_step =
      words * (fragments * (words == 2 ? 4 : 1) + grad.columns + 8 + of_word * (4 * fragments + 2 * grad.columns) +
               (grad.pairs.exist ? kPairsParted * fragments : 0) + (rounds_words ? kRowSums * summed : 0));
  double issued = products * terms + kGradWarps * k_steps * of_step;
  const double alone_grad = k_steps * of_step * kAloneClocks;
  double shared = kGradWarps * k_steps * words * (512 * fragments + 256.0 * grad.columns + 256);
  // the input gradient,
  const double rows = extent.warp_m / 16.0;
  const double of_input = plan.k_steps() * extent.warps() * rows * (extent.warp_n / 8.0);
  products += of_input * (plan.warpgroup ? kWarpgroupProducts : 1);
  if (!rounds_words) products += kGradWarps * k_steps * summed * words;
  // Of one warp: what it reads.
  const double reads = has_channel_rows(grad.layouts.grad) ? 4 : 1;
  const double of_weight = plan.warpgroup ? rows : extent.warp_n / 16.0 * grad.terms;
  const double of_warp = plan.k_steps() * (rows * (reads + 4 * of_word) + of_weight + 6);
  issued += (plan.warpgroup ? 0 : of_input * terms) + extent.warps() * of_warp;
  shared += plan.k_steps() * extent.warps() * kStepBytes *
            (extent.warp_m * (1 + grad.grad.conflicts / 64.0) +
             extent.warp_n * (plan.warpgroup ? rows / extent.warps() : grad.terms));
  // what is loaded and stored.
  const LoadedTile of_grad{grad.grad, grad.grad_shape, grad.layouts.grad, grad.layouts.masked, grad.element_bytes};
  const LoadedTile of_x{grad.input, grad.input_shape, grad.layouts.input, false, grad.element_bytes};
  const LoadingCost load_grad = loading_cost(of_grad, device);
  const LoadingCost load_x = loading_cost(of_x, device);
  const LoadingCost of_bias = bias_rows_cost(grad);
  const double loading = load_grad.clocks + load_x.clocks;
  const double positions = static_cast<double>(grad.images) * grad.box[0] * grad.box[1] * grad.box[2];
  const double written = positions * grad.n_channels * grad.halves();
  const double storing_rows =
      written / 32 *
      (plan.input.store == StoreWay::kChannels
           ? stored_in_channels(plan.input.channel_vector, lane_channels(extent.warp_n, plan.result_bytes))
       : plan.input.stages_matrices ? kStoredInMatrices
                                    : kStoredInRows);
  issued += (load_grad.instructions + load_x.instructions + of_bias.instructions) * kLoadingWarps + storing_rows;
  shared +=
      staging_bytes(of_grad) + staging_bytes(of_x) +
      (plan.input.store == StoreWay::kChannels ? 0
                                               : written * ((plan.input.stages_matrices ? 2 : 4) + plan.result_bytes));
  const double l2 = (source_bytes(of_grad) + source_bytes(of_x)) / kL2Share / device.rates.l2_bytes;

  const double memory = (memory_bytes(of_grad, grad.row_channels, grad.groups == 1) +
                         memory_bytes(of_x, grad.n_channels, grad.groups == 1) + written * plan.result_bytes) /
                        (device.memory.ahead * device.bytes_per_ms / device.clocks_per_ms / device.multiprocessors);

  const double of_product = device.rates.product_clocks * terms / kProductShare;
  const double multiplying = plan.warpgroup ? plan.k_steps() * kWarpgroupStep : of_input * of_product;
  const double alone_input = multiplying + (of_warp + storing_rows / extent.warps()) * kAloneClocks +
                             (grad.pairs.exist && !plan.warpgroup ? plan.k_steps() * kPairsLatency : 0);
  products *= of_product;
  shared /= device.rates.shared_bytes;
  issued /= kSchedulers * kIssued;
  const double arriving = (loading + device.memory.latency_clocks + std::max(l2, memory)) / grad.ahead;
  const double box =
      at_once({products, shared, issued, loading + of_bias.clocks, l2, memory, arriving, alone_grad, alone_input}) +
      kBox;

  const double sums = static_cast<double>(grad.most_fragments()) * 16 * grad.n_chunk;
  const double segments = static_cast<double>(ceil_div(grad.split_boxes, grad.segment_boxes));
  const double storing = (2 * segments - 1) * sums * 4 * grad.warps_k / (kStoreShare * device.rates.l2_bytes);
  const double waves = static_cast<double>(ceil_div(plan.blocks(), device.multiprocessors));
  const double weights = static_cast<double>(plan.k_steps()) * step_bytes(extent, grad.terms) / device.rates.l2_bytes;
  const double computing = waves * (static_cast<double>(grad.split_boxes) * box + storing + weights + kBlock +
                                    (grad.bias == BiasSums::kLoadingWarps ? kBiasBlock : 0));

  double of_output = static_cast<double>(grad.batch * grad.groups) * grad.row_channels * (grad.layouts.masked ? 2 : 1);
  double of_inputs = static_cast<double>(grad.batch * grad.groups) * grad.n_channels * 2;
  for (std::size_t i = 0; i < 3; ++i) {
    of_output *= grad.grad.axis[i].source_size;
    of_inputs *= grad.input.axis[i].source_size;
  }
  const double asking = static_cast<double>(std::min<int64_t>(plan.blocks(), device.multiprocessors));
  const double memory_ms = (of_output + of_inputs) * grad.element_bytes / (device.memory.ahead * device.bytes_per_ms) *
                           std::min(static_cast<double>(device.multiprocessors) / asking, 4.0);
  const double summing_ms = 4.0 * static_cast<double>(grad.partials() * grad.gradient_elements()) /
                            (kSumShare * device.rates.l2_bytes * device.multiprocessors * device.clocks_per_ms);
  return std::max(computing / device.clocks_per_ms, memory_ms) + summing_ms + device.launches.packed_and_summed;
}

}  // namespace convt3d::mma
