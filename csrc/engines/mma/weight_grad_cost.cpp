// A model, not a measurement: a multiprocessor multiplies, reads and writes shared memory, issues the loaders'
// instructions and reads L2 at the same time, and the slowest of them counts, box by box.
#include "engines/mma/weight_grad_cost.h"

#include <algorithm>
#include <cmath>

#include "core/integer.h"

namespace convt3d::mma {
namespace {

// Clocks of a multiprocessor.
constexpr double kProduct = 1.5;      // 16 x 8 x 32 bytes; the fastest of the architectures that have the instruction
constexpr double kSharedBytes = 128;  // a clock
constexpr double kSector = 32;
constexpr double kL2Bytes = 36;      // a clock
constexpr double kMemoryBytes = 11;  // a clock
constexpr double kBox = 120;         // barriers, tables
constexpr double kBlock = 3500;      // the first box, and what begins and ends a block
constexpr double kSumBytes = 1200;   // a clock of the whole device
constexpr double kLaunches = 5000;
constexpr double kClocksPerMs = 1.6e6;

// Of the loading threads, for 16 bytes: their instructions and, but for copies, their waits.
double piece_clocks(LoadWay way) {
  switch (way) {
    case LoadWay::kCopy:
      return 0.3;
    case LoadWay::kPieces:
      return 1;
    case LoadWay::kWidthPairs:
      return 0.8;
    case LoadWay::kChannels:
    case LoadWay::kWidth:
      return 2;
  }
  return 0;
}

// Bytes that memory hands out for each that is asked for, in sectors: of pieces of a row, or of elements along a line.
double sectors(LoadWay way, double channels, double line, int32_t element_bytes) {
  const bool along_width = way == LoadWay::kWidth || way == LoadWay::kWidthPairs;
  const double run = (along_width ? line : channels) * element_bytes;
  // Lines begin anywhere.
  const double asked = along_width ? run + kSector : std::ceil(run / kSector) * kSector;
  return asked / run;
}

}  // namespace

double position_clocks(double fragments, int32_t columns, double grad_channels, double input_channels,
                       const WeightGradPlan& plan) {
  const double words = plan.element_bytes == 4 ? 2 : 1;
  const double products = fragments * columns * words * kProduct * (plan.terms == 2 ? 3 : 1) / kGradStep;
  const double reads = words * (512 * fragments + kGradWarps * (256.0 * columns + 256)) / kSharedBytes / kGradStep;
  constexpr double kSomeLine = 16;
  const double bytes = plan.element_bytes *
                       (grad_channels * sectors(plan.layouts.grad, grad_channels, kSomeLine, plan.element_bytes) +
                        input_channels * sectors(plan.layouts.input, input_channels, kSomeLine, plan.element_bytes));
  const double loading =
      plan.element_bytes / double{kPieceBytes} *
      (grad_channels * piece_clocks(plan.layouts.grad) + input_channels * piece_clocks(plan.layouts.input));
  return std::max({products, reads + 2 * bytes / kSharedBytes, loading, bytes / kL2Bytes}) +
         0.1 * (products + reads + loading + bytes / kL2Bytes);
}

void set_cost(WeightGradPlan& plan, const GradLimits& limits) {
  const double fragments = static_cast<double>(ceil_div(plan.most_fragments(), plan.warps_m));
  const double k_steps = static_cast<double>(ceil_div(plan.steps, plan.warps_k));
  const double words = plan.element_bytes == 4 ? 2 : 1;  // products of a step, one after another
  const double products =
      kGradWarps * k_steps * fragments * plan.columns * words * kProduct * (plan.terms == 2 ? 3 : 1);
  const double reads = kGradWarps * k_steps * words * (512 * fragments + 256.0 * plan.columns + 256) / kSharedBytes;
  const double grad_pieces = static_cast<double>(plan.grad.staged_rows()) * plan.grad.pieces;
  const double input_pieces = static_cast<double>(plan.input.staged_rows()) * plan.input.pieces;
  const double pieces = grad_pieces + input_pieces;
  const double writes = pieces * kPieceBytes / kSharedBytes * 2;
  const double loading =
      grad_pieces * piece_clocks(plan.layouts.grad) + input_pieces * piece_clocks(plan.layouts.input);
  const double in_piece = kPieceBytes / static_cast<double>(plan.element_bytes);
  const double grad_line = plan.taps[2].units * static_cast<double>(plan.taps[2].length);
  const double spread =  // of coordinates, where residues are missing
      plan.layouts.grad == LoadWay::kCopy || plan.layouts.grad == LoadWay::kPieces
          ? 1
          : std::min(plan.taps[2].step / static_cast<double>(plan.taps[2].units), kSector / plan.element_bytes);
  const double l2 =
      kPieceBytes / kL2Bytes *
      (grad_pieces * sectors(plan.layouts.grad, in_piece * plan.grad.pieces, grad_line, plan.element_bytes) *
           std::max(spread, 1.0) +
       input_pieces * sectors(plan.layouts.input, in_piece * plan.input.pieces, plan.box[2], plan.element_bytes));
  const double box =
      std::max({products, reads + writes, loading, l2}) + 0.1 * (products + reads + writes + loading + l2) + kBox;

  const double sums = static_cast<double>(plan.warps_groups) * plan.most_fragments() * 16 * plan.n_chunk;
  const double segments = static_cast<double>(ceil_div(plan.split_boxes, plan.segment_boxes));
  const double storing = (2 * segments - 1) * sums * 4 * plan.warps_k / kL2Bytes;
  const int64_t blocks = plan.tiles() * plan.splits;
  const double waves = static_cast<double>(ceil_div(blocks, limits.multiprocessors));
  const double blocks_at_once = static_cast<double>(std::min<int64_t>(blocks, limits.multiprocessors));

  // What comes from memory at least: each tensor once for each wave that L2 does not carry it through.
  double elements = 0;
  {
    double grad = static_cast<double>(plan.batch * plan.groups) * plan.row_channels;
    double input = static_cast<double>(plan.batch * plan.groups) * plan.n_channels;
    for (std::size_t i = 0; i < 3; ++i) {
      grad *= plan.grad.axis[i].source_size;
      input *= plan.input.axis[i].source_size;
    }
    elements = grad + input;
  }
  const double memory = elements * plan.element_bytes / (kMemoryBytes * static_cast<double>(limits.multiprocessors));
  const double computing = waves * (static_cast<double>(plan.split_boxes) * box + storing + kBlock);
  const double summing = 4.0 * static_cast<double>(plan.slots() * plan.slot_elements()) / kSumBytes;
  const double uneven = static_cast<double>(limits.multiprocessors) / blocks_at_once;  // fewer ask memory
  plan.cost_ms = (std::max(computing, memory * std::min(uneven, 4.0)) + summing + kLaunches) / kClocksPerMs;
}

}  // namespace convt3d::mma
