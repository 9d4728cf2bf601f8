// A model: a multiprocessor multiplies, reads shared memory and has boxes copied at the same time, and the slowest of
// them counts, box by box.
#include "engines/wgmma/weight_grad/cost.h"

#include <algorithm>
#include <cmath>

#include "core/integer.h"
#include "core/multiprocessor.h"
#include "engines/wgmma/plan/cost.h"

namespace convt3d {
namespace {

// Fitted to 87 plans of 18 layers in float16 on an H100, when parts of the taps all cost the same and memory was a part
// of each box: right to 9 % then (root mean square).
constexpr double kColumnClocks = 0.5;      // of an instruction of 64 rows and 16 positions, a column: the units' peak
constexpr double kProductOverhead = 1.15;  // of the units' peak
constexpr double kInstructionClocks = 8;   // of an instruction beside its columns
constexpr double kArrivalClocks = 1600;    // from the end of a stage's products until its next box begins to arrive
constexpr double kStartClocks = 4000;      // until the first box begins to arrive, and what ends a block
constexpr double kBoxClocks = 60;          // until both warpgroups have gone on
constexpr double kAlongside = 0.05;        // of what is not slowest, that adds to what is
constexpr double kUnevenEnd = 0.5;         // of the longest block, while the last blocks of others have ended; assumed
constexpr double kL2Share = 0.9;           // of the rate of L2; assumed
// Of 32 bits, fitted to 112 plans of 14 layers, half of them in TF32 and half in two terms, on an H100: right to 7 %.
// Products whose operand is in registers, and the words that come there, hide little of each other.
constexpr double kTurnedProductShare = 0.84;           // of the units' peak, which the clock of the fit was short of
constexpr double kTurnedInstructionClocks = 12;        // of an instruction beside its columns
constexpr double kTurnedRowClocks[] = {9.4, 31};       // of a row of grad_output for a thread in a step, by terms
constexpr double kTurnedBoxClocks = 1500;              // from a box's last product until the next one's first
constexpr double kTurnedPanelClocks[] = {1000, 1500};  // of a warp that turns a panel of a block, by terms
constexpr double kTurnedStartClocks = 14600;           // as kStartClocks
constexpr double kTurnedSharedOverhead = 1.1;          // of shared memory's peak

// Sets of accumulators that are at work: the most of any block, and on average.
struct Sets {
  double most = 0;
  double mean = 0;
};

Sets sets_of(const WgmmaWeightGradPlan& plan) {
  Sets sets;
  for (int32_t depth = 0; depth < plan.taps[0].parts; ++depth) {
    for (int32_t height = 0; height < plan.taps[1].parts; ++height) {
      // Taps along the width are sets where they are no columns of an instruction.
      for (int32_t width = 0; width < (plan.turned() ? plan.taps[2].parts : 1); ++width) {
        const int32_t columns =
            plan.columns_of_sets(plan.taps[0].count(depth), plan.taps[1].count(height), plan.taps[2].count(width));
        const int64_t share = ceil_div(columns, plan.shares_columns() ? 2 : 1);
        const auto of_warpgroup = static_cast<double>(share * plan.instruction.widths);
        sets.most = std::max(sets.most, of_warpgroup);
        sets.mean += of_warpgroup;
      }
    }
  }
  sets.mean /= plan.taps[0].parts * plan.taps[1].parts * (plan.turned() ? plan.taps[2].parts : 1);
  return sets;
}

// Clocks until a box is copied.
struct Loading {
  double tma;
  double l2;
  double slowest() const { return std::max(tma, l2); }
};

// A box of a block with so many sets at work, from the beginning of its products to the next one's.
double rows_box_clocks(const WgmmaWeightGradPlan& plan, const DeviceTraits& device, double sets,
                       const Loading& loading) {
  const double columns = plan.columns();
  const double instructions = 2.0 * plan.steps * sets;  // of both warpgroups
  const double products = instructions * (kColumnClocks * columns * kProductOverhead + kInstructionClocks);
  const double operand_bytes = kWgmmaGradStep * 2.0 * (kWgmmaGradPanelChannels + columns);
  const double shared = instructions * operand_bytes / device.rates.shared_bytes;
  const double computing = std::max(products, shared);
  // A stage is empty from the end of its products until its next box is there.
  return std::max(at_once({computing, loading.tma, loading.l2}, kAlongside),
                  (computing + loading.slowest() + kArrivalClocks) / plan.stages) +
         kBoxClocks;
}

double turned_box_clocks(const WgmmaWeightGradPlan& plan, const DeviceTraits& device, double sets,
                         const Loading& loading) {
  const double columns = plan.columns();
  const int terms = plan.terms - 1;
  const double instructions = 2.0 * plan.steps * sets * (plan.terms == 1 ? 1 : 3);
  const double products = instructions * (kColumnClocks * columns * kTurnedProductShare + kTurnedInstructionClocks);
  const int32_t widths = plan.instruction.widths;
  const double rows = 2.0 * plan.steps * sets / widths * (widths + 1);
  const double multiplying = products + rows * kTurnedRowClocks[terms] + kTurnedBoxClocks;
  const double panels = static_cast<double>(plan.blocks_of_box()) * plan.input.panels;
  const double turning = std::ceil(panels / kWgmmaTurners) * kTurnedPanelClocks[terms];
  const double read_rows = kWgmmaTurnedStep * sizeof(float) * (rows * kWgmmaTurnedRows / 2 + instructions * columns);
  const double turned = panels * kWgmmaTurnedBlockBytes * (1 + plan.terms);
  const double shared = kTurnedSharedOverhead * (read_rows + turned) / device.rates.shared_bytes;
  return std::max({multiplying, shared, turning, loading.slowest(),
                   (multiplying + turning + loading.slowest() + kArrivalClocks) / plan.stages});
}

}  // namespace

void set_cost(WgmmaWeightGradPlan& plan, const DeviceTraits& device) {
  const auto rows = [&](const WgmmaGradTile& tile) {
    return static_cast<double>(tile.panels) * plan.images * tile.extent[0] * tile.extent[1] * tile.extent[2];
  };
  const double copied_rows = (plan.turned() ? plan.blocks_of_box() : 1) * rows(plan.input) + rows(plan.grad);
  const Loading loading{copied_rows * tma_row_clocks(kWgmmaGradRowBytes),
                        copied_rows * kWgmmaGradRowBytes / (kL2Share * device.rates.l2_bytes)};

  // Each tensor comes from memory once at least.
  double elements = static_cast<double>(plan.batch) * plan.groups * plan.in_channels;
  double grad_elements = static_cast<double>(plan.batch) * plan.groups * plan.out_channels;
  for (std::size_t i = 0; i < 3; ++i) {
    const double positions = static_cast<double>(plan.boxes[i + 1]) * plan.box[i];
    elements *= positions;
    grad_elements *= positions * plan.taps[i].residues * plan.taps[i].rows;
  }
  const auto multiprocessors = static_cast<double>(device.multiprocessors);
  const auto blocks = static_cast<double>(plan.blocks());
  const double memory_ms = plan.element_bytes() * (elements + grad_elements) /
                           (device.memory.boxes * device.bytes_per_ms) * std::clamp(multiprocessors / blocks, 1.0, 4.0);
  const auto segments = static_cast<double>(ceil_div(plan.split_boxes, plan.segment_boxes));
  // Of a block with so many sets at work.
  const auto block_clocks = [&](double sets) {
    const double box =
        plan.turned() ? turned_box_clocks(plan, device, sets, loading) : rows_box_clocks(plan, device, sets, loading);
    const double sums = 2.0 * kWgmmaGradPanelChannels * plan.columns() * sets;
    const double storing = (2 * segments - 1) * sums * 4 / (kStoreShare * device.rates.l2_bytes);
    const double start = plan.turned() ? kTurnedStartClocks : kStartClocks;
    const double first = device.memory.latency_clocks + start + loading.slowest();
    return static_cast<double>(plan.split_boxes) * box + first + storing;
  };
  const Sets sets = sets_of(plan);
  const auto waves = static_cast<double>(ceil_div(plan.blocks(), device.multiprocessors));
  // Blocks that take less leave multiprocessors to others, but for the last ones.
  const double longest = block_clocks(sets.most);
  const double mean = block_clocks(sets.mean);
  const double computing =
      std::min(waves * longest, std::max(longest, blocks / multiprocessors * mean + kUnevenEnd * longest));
  const double summing_ms = static_cast<double>(plan.workspace_bytes()) /
                            (kSumShare * device.rates.l2_bytes * multiprocessors * device.clocks_per_ms);
  const double computing_ms = computing / device.clocks_per_ms;
  plan.cost_ms = at_once({computing_ms, memory_ms}, kAlongside) + summing_ms + device.launches.summed;
}

}  // namespace convt3d
