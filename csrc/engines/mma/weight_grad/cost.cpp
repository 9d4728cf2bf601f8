// A model with constants fitted to times measured on an H200: a multiprocessor multiplies, reads and writes shared
// memory, loads and reads L2 at the same time, and the slowest of them counts, box by box.
#include "engines/mma/weight_grad/cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/integer.h"
#include "engines/mma/tile/load_cost.h"
#include "engines/mma/tile/multiprocessor_cost.h"

namespace convt3d::mma {
namespace {

// Of two terms, what a product takes beside what was expected of it: 16 layers on an H100, 1.13 to 1.7 without it.
constexpr double kTermsProduct = 1.35;
// Clocks.
constexpr double kBox = 150;     // barriers
constexpr double kBlock = 4000;  // the first box, and what begins and ends a block
// Instructions of a warp that multiplies.
constexpr double kStepInstructions = 12;       // a step: where its sixteen positions are in both tiles
constexpr double kFragmentInstructions = 4.2;  // a fragment of 16 bits beside its products: reading sixteen rows
constexpr double kWordInstructions = 9;        // a fragment of eight positions that is read word by word, of 32 bits
// From an instruction of a warp to its next, in clocks, where products of two warps hide some of it.
constexpr double kBetweenProducts = 2;
constexpr double kLoadedInRows = 2.5;  // times the instructions of a copy
constexpr double kLoadedInElements = 4;
// Instructions of a loading warp that sums rows of kBiasRows fragments at once, some of which wait for nothing.
constexpr double kBiasBox = 60;
constexpr double kBiasUnit = 120;
constexpr double kMatrixSummed = 22;  // sixteen positions of 16 bits
constexpr double kWordsSummed = 50;   // sixteen positions of 32 bits
constexpr double kPairsSummed = 90;   // sixteen words of two positions of 16 bits

// Reads of shared memory that wait for each other, of words of four positions of eight channels.
struct WordConflicts {
  double grad = 1;
  double input = 1;
};

WordConflicts word_conflicts(const WeightGradPlan& plan) {
  if (has_channel_rows(plan.layouts.grad)) {
    // Neighbouring positions: `step` elements apart in channel rows, else an odd number of pieces.
    const auto step = static_cast<double>(std::gcd(plan.taps[2].step, 4));
    if (plan.pairs.exist) return {std::max(step / 2, 1.0), 1};
    return {step, has_channel_rows(plan.layouts.input) ? 1.0 : 2.0};
  }
  return {1, has_channel_rows(plan.layouts.input) ? 2.0 : 1.0};  // every other position
}

// What a multiprocessor's warps take for a step of K, in clocks.
struct StepClocks {
  double products;  // the products of all warps
  double shared;    // the accesses of all warps to shared memory
  double issued;    // the instructions of all warps, as fast as the schedulers take them
  double alone;     // the instructions of one warp, which wait for each other
};

StepClocks step_clocks(double fragments, double warp_fragments, double warps, int32_t columns,
                       const WeightGradPlan& plan, const DeviceTraits& device) {
  const bool wide = plan.element_bytes == 4;
  const double words = wide ? 2 : 1;  // products of a step, one after another
  const double terms = plan.terms == 2 ? 3 : 1;
  const double rounded = wide && plan.terms == 1 && !plan.pairs.exist ? kRoundedWord : 0;
  const double parted = plan.pairs.exist ? 1 : 0;  // of each word
  const double of_fragment = wide ? (kWordInstructions + 4 * (rounded + parted)) * words : kFragmentInstructions;
  const auto others = [&](double count, double of_warps) {
    return count * of_fragment +
           of_warps * (kStepInstructions + words * (wide ? 2 * columns * (1 + rounded) + 2 * (columns - 1) : columns));
  };
  const double products = fragments * columns * words * terms;
  StepClocks step{};
  step.products = products * device.rates.product_clocks / kProductShare * (plan.terms == 2 ? kTermsProduct : 1);
  const WordConflicts conflicts = word_conflicts(plan);
  step.shared = words *
                (512 * conflicts.grad * plan.grad_accesses * fragments +
                 warps * (256.0 * conflicts.input * plan.input_accesses * columns + 256)) /
                device.rates.shared_bytes;
  step.issued = (products + others(fragments, warps)) / (kSchedulers * kIssued);
  step.alone = step.products + others(warp_fragments, 1) * kBetweenProducts;
  return step;
}

}  // namespace

LoadingCost bias_rows_cost(const WeightGradPlan& plan) {
  if (plan.bias != BiasSums::kLoadingWarps) return {0, 0};
  // Of the part that has most.
  int64_t eights = int64_t{plan.row_chunk / 8} * plan.warps_groups * plan.halves();
  for (std::size_t i = 0; i < 3; ++i) {
    const TapParts& taps = plan.taps[i];
    if (plan.pairs.exist && i == 2) {  // word taps, whose halves are taps
      eights *= taps.most;
      continue;
    }
    int32_t most = 0;
    for (int32_t part = 0; part < taps.parts; ++part) {
      int32_t of_part = 0;
      for (int32_t j = 0; j < taps.count(part); ++j)
        of_part += static_cast<int32_t>(plan.bias_taps[i] >> (taps.first(part) + j * taps.stride) & 1);
      most = std::max(most, of_part);
    }
    eights *= most;
  }
  // As BiasRows shares them out.
  const auto fragments = static_cast<int32_t>(ceil_div(eights, 2));
  const auto units = static_cast<double>(ceil_div(bias_units(fragments), kLoadingWarps));
  const auto steps = static_cast<double>(ceil_div(plan.steps, bias_slices(fragments)));
  const double of_step = plan.pairs.exist ? kPairsSummed : plan.element_bytes == 4 ? kWordsSummed : kMatrixSummed;
  const double instructions = kBiasBox + units * (kBiasUnit + steps * of_step);
  return {instructions, instructions * kAloneClocks};
}

double position_clocks(double fragments, int32_t columns, double grad_channels, double input_channels,
                       const WeightGradPlan& plan, const DeviceTraits& device) {
  const StepClocks step = step_clocks(fragments, 0, kGradWarps, columns, plan, device);
  const auto loads = [&](LoadWay way, RowsBegin begin, int32_t part) {
    if (way == LoadWay::kCopyParts) return double{kPieceBytes} / part;
    const bool aligned = begin == RowsBegin::kWhole;
    if (way == LoadWay::kCopy || (way == LoadWay::kChannelRows && aligned)) return 1.0;
    return way == LoadWay::kRows || (way == LoadWay::kChannelRowsMasked && aligned) ? kLoadedInRows : kLoadedInElements;
  };
  const double bytes = plan.element_bytes * (grad_channels + input_channels);
  const double loading =
      plan.element_bytes / double{kPieceBytes} *
      (grad_channels * loads(plan.layouts.grad, plan.layouts.grad_begin, plan.layouts.grad_part) +
       input_channels * loads(plan.layouts.input, plan.layouts.input_begin, plan.layouts.input_part)) *
      kCopyInstructions * kAloneClocks / kLoadingThreads;
  return at_once({step.products / kGradStep, step.shared / kGradStep + 2 * bytes / device.rates.shared_bytes,
                  step.issued / kGradStep, loading, bytes / device.rates.l2_bytes});
}

void set_cost(WeightGradPlan& plan, const DeviceTraits& device) {
  const LoadedTile grad{plan.grad, plan.grad_shape, plan.layouts.grad, plan.layouts.masked, plan.element_bytes};
  const LoadedTile input{plan.input, plan.input_shape, plan.layouts.input, false, plan.element_bytes};
  const auto fragments = static_cast<double>(ceil_div(plan.most_fragments(), plan.warps_m));
  const auto k_steps = static_cast<double>(ceil_div(plan.steps, plan.warps_k));
  const StepClocks step = step_clocks(kGradWarps * fragments, fragments, kGradWarps, plan.columns, plan, device);
  const double products = k_steps * step.products;
  const double shared =
      k_steps * step.shared + (staging_bytes(grad) + staging_bytes(input)) / device.rates.shared_bytes;
  const LoadingCost of_grad = loading_cost(grad, device);
  const LoadingCost of_input = loading_cost(input, device);
  const LoadingCost of_bias = bias_rows_cost(plan);
  const double issued =
      k_steps * step.issued +
      kLoadingWarps * (of_grad.instructions + of_input.instructions + of_bias.instructions) / (kSchedulers * kIssued);
  const double l2 = (source_bytes(grad) + source_bytes(input)) / kL2Share / device.rates.l2_bytes;
  // A box is awaited before the one after those that are on their way is begun.
  const double loads = of_grad.clocks + of_input.clocks;
  const double arriving = (loads + device.memory.latency_clocks + l2) / plan.ahead;

  // Each tensor comes from memory once at least, but for copies that stay in L2; few multiprocessors ask for less than
  // it has.
  double elements = 0;
  {
    double of_grad = static_cast<double>(plan.batch * plan.groups) * plan.row_channels;
    double of_input = static_cast<double>(plan.batch * plan.groups) * plan.n_channels;
    for (std::size_t i = 0; i < 3; ++i) {
      of_grad *= plan.grad.axis[i].source_size;
      of_input *= plan.input.axis[i].source_size;
    }
    const bool stay = stay_in_l2({&plan.grad_copy, &plan.input_copy}, device);
    if (!(stay && plan.grad_copy.exists)) elements += of_grad * (plan.layouts.masked ? 2 : 1);
    if (!(stay && plan.input_copy.exists)) elements += of_input;
  }
  const int64_t blocks = plan.tiles() * plan.splits;
  const double asking = static_cast<double>(std::min<int64_t>(blocks, device.multiprocessors));
  const double memory_ms = elements * plan.element_bytes / (device.memory.ahead * device.bytes_per_ms) *
                           std::min(static_cast<double>(device.multiprocessors) / asking, 4.0);
  // Of all portions.
  const int64_t portions = portion_count(plan.portions, plan.boxes);
  const double waves = static_cast<double>(portions * ceil_div(blocks, device.multiprocessors));
  const double boxes = waves * static_cast<double>(plan.split_boxes);
  const double memory = memory_ms * device.clocks_per_ms / boxes;
  const double box =
      at_once({products, shared, loads + of_bias.clocks, l2, arriving, issued, k_steps * step.alone, memory}) + kBox;

  const double sums = static_cast<double>(plan.warps_groups) * plan.most_fragments() * 16 * plan.n_chunk;
  const double segments = static_cast<double>(ceil_div(plan.split_boxes, plan.segment_boxes));
  const double joined = 2 * segments - 1.0 / static_cast<double>(portions);  // stored and read again, but first
  const double storing = joined * sums * 4 * plan.warps_k / (kStoreShare * device.rates.l2_bytes);
  const double computing = boxes * box + waves * (loads + device.memory.latency_clocks + l2 + storing + kBlock +
                                                  (plan.bias == BiasSums::kLoadingWarps ? kBiasBlock : 0));
  const double partial_bytes = 4.0 * static_cast<double>(plan.partials() * plan.gradient_elements());
  const double summing_ms =
      partial_bytes / (kSumShare * device.rates.l2_bytes * device.multiprocessors * device.clocks_per_ms);
  const double copying = copies_ms(plan.portions, {&plan.grad_copy, &plan.input_copy}, plan.boxes, plan.batch, device);
  plan.cost_ms =
      computing / device.clocks_per_ms + summing_ms + device.launches.summed + copying + portions_ms(portions, device);
}

}  // namespace convt3d::mma
