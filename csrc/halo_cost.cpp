#include "halo_cost.h"

#include <algorithm>

#include "halo_plan.h"
#include "integer.h"
#include "problem.h"

namespace convt3d {
namespace {

// Fitted to measured times on an H200: 13,935 candidates of the public layers in three precisions and both layouts;
// near the fastest the model is right to 18 % (root mean square).
constexpr double kBytesPerClock = 19.0;  // a multiprocessor's share of the device memory's throughput

constexpr double kLoaderBytesPerClock = 2.61;  // what threads load
constexpr double kTransposeBytesPerClock = 19.5;
constexpr double kTranspose16BytesPerClock = 5.89;  // of 16-bit elements
constexpr double kTransposeTermsRate = 0.62;        // of these, where two terms are stored
constexpr double kTransposedBoxClocks = 154;        // of each box
constexpr double kTermsBoxOverhead = 1.5;
constexpr double kCopyBytesPerClock = 16.2;     // of a tile's shortest rows ...
constexpr double kCopyRowBytesPerClock = 15.9;  // ... and as much more of rows of 128 bytes
constexpr double kCopyTermsRate = 0.403;
constexpr double kLoadClocks = 4200;        // until a tile begins to arrive
constexpr double kSingleSlotLoads = 0.245;  // of the load, which nothing hides where there is one slot
constexpr double kOverlap = 0.12;           // of the shorter of loading and computing, what the longer does not hide

constexpr double kProductColumns = 78;  // an instruction of fewer takes as long
constexpr double kProductOverhead = 1.21;
constexpr double kTermsProductOverhead = 1.14;
constexpr double kTurnProductClocks = 61;  // more for a product while one warpgroup multiplies alone
constexpr double kTurnStoreOverhead = 1.1;
constexpr double kStageClocks = 461;   // until a stage of weights arrives, unless the ring runs ahead for so long
constexpr double kHeldStages = 0.843;  // that are multiplied meanwhile, for each term

constexpr double kBoxRowClocks = 0.175;  // of a row that the copy engine stores, beside its bytes
constexpr double kBoxByteClocks = 0.0352;
constexpr double kBox16Overhead = 0.893;        // of 16-bit elements
constexpr double kLinePartOverhead = 0.0355;    // of each further part of a line
constexpr double kThreadOutputClocks = 0.0818;  // of an output that a thread stores, beside its bytes
constexpr double kThreadByteClocks = 0.0524;
constexpr double kThreadPieceOverhead = 0.447;
constexpr double kUnitBeginClocks = 387;  // until a unit's first product
constexpr double kUnitClocks = 813;       // from its last one until it stores
constexpr double kSegmentClocks = 83;     // of handing a segment over
constexpr double kBatchClocks = 360;      // of waiting until a batch's place is free
constexpr double kPartClocks = 951;       // of what threads store although the rest are boxes
constexpr double kItemClocks = 1010;

// Of one chunk, from memory to where it is multiplied.
double chunk_clocks(int element_bytes, bool channels_last, const HaloPlan& plan) {
  const double positions = static_cast<double>(plan.halo[0]) * plan.halo[1] * plan.halo[2] * (1 << plan.image_log);
  const double bytes = positions * plan.folds() * plan.chunk_panels * plan.row_bytes;
  const bool two_terms = plan.terms == 2;
  if (plan.box_width > 0) {
    const double rate = element_bytes == 2 ? kTranspose16BytesPerClock : kTransposeBytesPerClock;
    const int boxes = plan.row_boxes * plan.depth_boxes * plan.folds() * plan.chunk_panels * plan.row_bytes / 16;
    return bytes / (rate * plan.halo[2] / plan.box_width * (two_terms ? kTransposeTermsRate : 1)) +
           boxes * kTransposedBoxClocks * (two_terms ? kTermsBoxOverhead : 1);
  }
  if (channels_last && plan.in_channels * element_bytes % plan.row_bytes == 0) {
    const double rate = kCopyBytesPerClock + kCopyRowBytesPerClock * plan.row_bytes / 128;
    return bytes / (rate * (two_terms ? kCopyTermsRate : 1));
  }
  return bytes / kLoaderBytesPerClock;
}

// Of all outputs of an item.
double store_clocks(int element_bytes, bool channels_last, const HaloPlan& plan) {
  const HaloStaging& staging = plan.staging;
  const double units = static_cast<double>(plan.units()) / plan.splits;
  const double outputs = static_cast<double>(plan.slabs) * 16 / plan.splits * plan.sets * plan.phases *
                         std::min<double>(plan.n, plan.columns) * 2;
  double output_clocks;
  if (staging.boxes) {
    const double row_bytes = channels_last ? plan.slab_channels * element_bytes : staging.pitch;
    output_clocks = element_bytes * (kBoxRowClocks / row_bytes + kBoxByteClocks);
    if (element_bytes == 2) output_clocks *= kBox16Overhead;
    // Between the channels of a group lie those of others: lines of 128 bytes are written in parts.
    if (channels_last) {
      const double parts = std::min(static_cast<double>(plan.groups), 128.0 / (plan.out_channels * element_bytes));
      output_clocks *= 1 + kLinePartOverhead * std::max(parts - 1, 0.0);
    }
  } else {
    // Where the width is contiguous, rows of a tile that are no whole sectors of memory are written in pieces.
    const int64_t row_bytes = int64_t{plan.tile[2]} * plan.axis[2].stride * element_bytes;
    const bool whole_sectors =
        plan.axis[2].dst_size * element_bytes % 32 == 0 && (plan.tiles[2] == 1 || row_bytes % 32 == 0);
    const double pieces = channels_last || whole_sectors ? 0.0 : 0.2 + 64.0 / static_cast<double>(row_bytes);
    output_clocks = (kThreadOutputClocks + kThreadByteClocks * element_bytes) * (1 + kThreadPieceOverhead * pieces);
  }
  const int segments = std::max(staging.segments[0], staging.segments[1]);
  return outputs * output_clocks +
         units * (kUnitClocks + segments * kSegmentClocks + (batches(staging) - 1) * kBatchClocks +
                  (staging.part[0] >= 0 ? kPartClocks : 0));
}

}  // namespace

double expected_clocks(const Problem& problem, int element_bytes, bool channels_last, const HaloPlan& plan) {
  const bool two_terms = plan.terms == 2;
  const double units = static_cast<double>(plan.units()) / plan.splits;
  const double loads = plan.chunks() == 1 ? 1 : units * plan.chunks();
  const double load = loads * (chunk_clocks(element_bytes, channels_last, plan) + kLoadClocks / plan.slots);

  const double stages = static_cast<double>(most_stages(plan));  // of the slowest split
  const double stage_columns = plan.stage_products() * std::max<double>(plan.n, kProductColumns);
  const double ahead = std::max(plan.ring - 1 - kHeldStages * plan.terms, 0.0) * stage_columns;
  const double products = stages * stage_columns * (two_terms ? kTermsProductOverhead : kProductOverhead) +
                          units * kUnitBeginClocks +
                          (plan.resident_weights ? 0 : stages * std::max(kStageClocks - ahead, 0.0));
  const double store = store_clocks(element_bytes, channels_last, plan);
  const double turn = products / 2 + stages * plan.stage_products() * kTurnProductClocks;  // of one warpgroup
  const double compute = plan.alternate ? std::max(2 * turn, turn + store * kTurnStoreOverhead) : products + store;

  const double item = std::max(load, compute) + std::min(load, compute) * kOverlap +
                      (plan.slots == 1 ? kSingleSlotLoads * load : 0) + kItemClocks;
  const double rounds = static_cast<double>(ceil_div(plan.items(), kHaloMultiprocessors));
  const auto positions = [](const Int3& size) { return static_cast<double>(size[0]) * size[1] * size[2]; };
  const double bytes =
      static_cast<double>(element_bytes) * problem.batch *
      (problem.in_channels * positions(problem.input_size) + problem.out_channels * positions(problem.output_size()));
  return std::max(rounds * item, bytes / kHaloMultiprocessors / kBytesPerClock) + load;
}

}  // namespace convt3d
