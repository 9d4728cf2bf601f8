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
// Of operands that are turned; assumed.
constexpr double kFragmentClocks = 26;  // a warp's issue of a step's rows of a tap, rounded; of two terms twice that
constexpr double kTurnedPanelClocks = 450;  // a warp's, of a panel of a block; of two terms half as much again
constexpr double kTurnedBoxClocks = 300;    // from a box's last product until the next one's first

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

}  // namespace

void set_cost(WgmmaWeightGradPlan& plan, const DeviceTraits& device) {
  const auto rows = [&](const WgmmaGradTile& tile) {
    return static_cast<double>(tile.panels) * plan.images * tile.extent[0] * tile.extent[1] * tile.extent[2];
  };
  const double columns = plan.columns();
  const double products_of_step = plan.terms == 1 ? 1 : 3;
  const double blocks_of_box = plan.turned() ? plan.blocks_of_box() : 1;
  const double copied_rows = blocks_of_box * rows(plan.input) + rows(plan.grad);
  const double l2 = copied_rows * kWgmmaGradRowBytes / (kL2Share * device.rates.l2_bytes);
  const double tma = copied_rows * tma_row_clocks(kWgmmaGradRowBytes);
  const double loading = std::max(tma, l2);

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
    const double instructions = 2.0 * plan.steps * sets;  // of both warpgroups
    const double products =
        products_of_step * instructions * (kColumnClocks * columns * kProductOverhead + kInstructionClocks);
    const double of_rows = plan.turned() ? 1 : products_of_step;  // through registers once
    const double operand_bytes = 32 * (of_rows * kWgmmaTurnedRows + products_of_step * columns);
    double shared = instructions * operand_bytes / device.rates.shared_bytes;
    double computing = products;
    if (plan.turned()) {
      const double panels = blocks_of_box * plan.input.panels;
      shared += panels * kWgmmaTurnedBlockBytes * (1 + plan.terms) / device.rates.shared_bytes;
      // A scheduler has a warp of each warpgroup.
      const double issue = instructions * kFragmentClocks * plan.terms;
      const double turning = std::ceil(panels / 3) * kTurnedPanelClocks * (1 + plan.terms) / 2;
      computing = at_once({products, issue, turning}, kAlongside) + kTurnedBoxClocks;
    }
    computing = std::max(computing, shared);
    // A stage is empty from the end of its products until its next box is there.
    const double box =
        std::max(at_once({computing, tma, l2}, kAlongside), (computing + loading + kArrivalClocks) / plan.stages) +
        kBoxClocks;
    const double sums = 2.0 * kWgmmaGradPanelChannels * columns * sets;
    const double storing = (2 * segments - 1) * sums * 4 / (kStoreShare * device.rates.l2_bytes);
    const double first = device.memory.latency_clocks + kStartClocks + loading;
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
