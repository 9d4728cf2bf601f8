#include "engines/wgmma/plan/cost.h"

#include <algorithm>
#include <cmath>

#include "core/devices.h"
#include "core/integer.h"
#include "core/problem.h"
#include "engines/wgmma/plan/plan.h"

namespace convt3d {
namespace {

// Fitted to measured times on an H200: 8,000 candidates of the public layers in three precisions and both layouts, most
// of them near the cheapest; near the fastest the model is right to 16 % (root mean square). Those of rows of positions
// are from trials with some 290 candidates of the layers with kernel == stride.

// A multiprocessor's share of the throughput of an H200's memory, and what makes memory slower.
constexpr double kBytesPerClock = 15.6;
constexpr double kBurstBytes = 7550;      // that a warp may hand over at once, where channels are contiguous
constexpr double kBurstOverhead = 0.603;  // of each further so many
constexpr int kLineBytes = 128;
constexpr double kShortRowOverhead = 0.2;  // of rows of positions, for each further one of a line
// What the copy engine takes for a row of a box.
constexpr double kEngineRowClocks = 2.92;
constexpr double kEngineByteClocks = 0.00204;
// Memory, the copy engine and all else that a block does are the more in each other's way the closer they are.
constexpr double kSharpness = 12.7;

constexpr double kLoaderBytesPerClock = 2.49;  // what threads load
constexpr double kTransposeBytesPerClock = 14;
constexpr double kTranspose16BytesPerClock = 7.76;  // of 16-bit elements
constexpr double kPlanesBytesPerClock = 11.2;       // of boxes of planes
constexpr double kPlanes16BytesPerClock = 9.94;
constexpr double kTermsPlanesRate = 0.623;
constexpr double kTransposedBoxClocks = 111;  // of each box
constexpr double kTermsBoxOverhead = 2.75;
constexpr double kCopyBytesPerClock = 25.3;
constexpr double kCopyTermsRate = 0.402;
constexpr double kLoadClocks = 4140;           // until a tile begins to arrive
constexpr double kChunkLoadClocks = 4720;      // ... of a chunk, which the products of the chunks before hide
constexpr double kRowsChunkLoadClocks = 2400;  // ... of rows of positions
constexpr double kExposedLoads = 0.162;        // of what they do not hide
constexpr double kLoaderChunkClocks = 1290;    // of a chunk, for those who load, beside its bytes
constexpr double kRowsChunkClocks = 300;
constexpr double kStartClocks = 6320;       // of the launch, until products begin
constexpr double kSingleSlotLoads = 0.397;  // of the load, which nothing hides where there is one slot
constexpr double kOverlap = 0.153;          // of the shorter of loading and computing, what the longer does not hide

constexpr double kProductColumns = 90.6;  // an instruction of fewer takes as long
constexpr double kProductOverhead = 1.1;
constexpr double kTermsProductOverhead = 1.1;
constexpr double kTurnProductClocks = 29.2;  // more for a product while one warpgroup multiplies alone
constexpr double kTurnStoreOverhead = 1.1;
constexpr double kStageClocks = 958;  // until a stage of weights arrives
constexpr double kWeightBytesPerClock = 21.6;
constexpr double kHeldStages = 0.512;  // of the ring, for each term, into which nothing is on its way

constexpr double kBoxOutputClocks = 0.0434;  // of staging an output
constexpr double kBoxByteClocks = 0.00113;   // until the copy engine has read it
constexpr double kBox16Factor = 0.0809;      // of 16-bit elements
constexpr double kBatchesOverhead = 1.9;     // of staging, where a unit has several batches
constexpr double kRunOutputClocks = 0.0425;  // of staging an output
constexpr double kRun16Factor = 0.676;       // ... of 16 bits
constexpr double kRunClocks = 67.6;          // of a channel's run, that a warp stores
constexpr double kRunPieceClocks = 44.3;     // ... of each so many bytes
constexpr int kRunPieceBytes = 256;
constexpr double kThreadOutputClocks = 0.35;  // of an output that a thread stores: least in counters of older kernels
constexpr double kRegisterOutputClocks = 0.0199;
constexpr double kHiddenProducts = 0.0367;  // during which a unit's only batch is stored in the background
constexpr double kUnitBeginClocks = 1020;   // until a unit's first product
constexpr double kUnitClocks = 625;         // from its last one until it stores
constexpr double kHandOverClocks = 251;     // of a box, or another segment
constexpr double kBatchClocks = 11.2;       // of a further batch
constexpr double kRunBatchClocks = 108;
constexpr double kPartClocks = 3680;  // of what threads store although the rest are boxes

// A multiprocessor's share of the peak of the device's memory, in bytes per clock.
double memory_share(const DeviceTraits& device) {
  return device.bytes_per_ms / device.clocks_per_ms / device.multiprocessors;
}

double outputs_of_item(const HaloPlan& plan) {
  return static_cast<double>(plan.slabs) * 16 / plan.splits * plan.sets * plan.phases *
         std::min<double>(plan.n, plan.columns) * 2;
}

// Of the rows of boxes.
double row_bytes(int element_bytes, bool channels_last, const HaloPlan& plan) {
  return channels_last ? plan.slab_channels * element_bytes : plan.staging.pitch;
}

double chunk_bytes(const HaloPlan& plan) {
  const double positions = static_cast<double>(plan.halo[0]) * plan.halo[1] * plan.halo[2] * (1 << plan.image_log);
  return positions * plan.folds() * plan.chunk_panels * plan.row_bytes;
}

// What the copy engine takes for the rows of positions of one chunk.
double position_rows_clocks(const HaloPlan& plan) {
  constexpr int kElementBytes = 2;
  return chunk_bytes(plan) / (kElementBytes << plan.row_log) * kEngineRowClocks;
}

// Of one chunk, from memory to where it is multiplied.
double chunk_clocks(int element_bytes, bool channels_last, const HaloPlan& plan) {
  const double bytes = chunk_bytes(plan);
  const bool two_terms = plan.terms == 2;
  if (plan.row_log > 0) return std::max(bytes / kCopyBytesPerClock, position_rows_clocks(plan));
  if (plan.box_width > 0) {
    const double rate = element_bytes == 2 ? kTranspose16BytesPerClock : kTransposeBytesPerClock;
    const int boxes = plan.row_boxes * plan.depth_boxes * plan.folds() * plan.chunk_panels * plan.row_bytes / 16;
    return bytes / (rate * plan.halo[2] / plan.box_width) +
           boxes * kTransposedBoxClocks * (two_terms ? kTermsBoxOverhead : 1);
  }
  if (plan.box_images > 0) {
    const int boxes = (1 << plan.image_log) / plan.box_images * plan.chunk_panels * plan.row_bytes / 16;
    return bytes / ((element_bytes == 2 ? kPlanes16BytesPerClock : kPlanesBytesPerClock) *
                    (two_terms ? kTermsPlanesRate : 1)) +
           boxes * kTransposedBoxClocks * (two_terms ? kTermsBoxOverhead : 1);
  }
  if (channels_last && plan.in_channels * element_bytes % plan.row_bytes == 0) {
    return bytes / (kCopyBytesPerClock * (two_terms ? kCopyTermsRate : 1));
  }
  return bytes / kLoaderBytesPerClock;
}

// Of all outputs of an item, whose products take `products`.
double store_clocks(int element_bytes, const HaloPlan& plan, double products) {
  const HaloStaging& staging = plan.staging;
  const double units = static_cast<double>(plan.units()) / plan.splits;
  const double outputs = outputs_of_item(plan);
  const double bytes = outputs * element_bytes;
  const bool half = element_bytes == 2;
  double stage;  // by the warps that multiply
  double leave;  // by the copy engine or, of runs, by the warps
  if (staging.boxes()) {
    stage = outputs * kBoxOutputClocks * (batches(staging) > 1 ? kBatchesOverhead : 1);
    leave = bytes * kBoxByteClocks * (half ? kBox16Factor : 1);
  } else if (staging.runs()) {
    stage = outputs * kRunOutputClocks * (half ? kRun16Factor : 1);
    const double row_bytes = static_cast<double>(std::min(staging.columns, plan.tile[2])) * staging.column_bytes;
    const double run_bytes = staging.joined_rows ? row_bytes * staging.rows * staging.batch : row_bytes;
    const double runs =
        units * (staging.joined_rows ? batches(staging) : std::max(staging.segments[0], staging.segments[1]));
    leave = runs * plan.slab_channels * (kRunClocks + kRunPieceClocks * std::ceil(run_bytes / kRunPieceBytes));
  } else {
    stage = outputs * (staging.way == HaloWay::kRegisters ? kRegisterOutputClocks : kThreadOutputClocks);
    leave = 0;
  }
  const int further = batches(staging) - 1;
  if (staging.boxes() && further == 0 && staging.halves == 1) leave = std::max(leave - kHiddenProducts * products, 0.0);
  const int64_t segments =
      ceil_div(std::max(staging.segments[0], staging.segments[1]), staging.boxes() ? staging.box_rows : 1);
  return stage + leave +
         units *
             (kUnitClocks + static_cast<double>(segments) * kHandOverClocks +
              further * (staging.runs() ? kRunBatchClocks : kBatchClocks) + (staging.part[0] >= 0 ? kPartClocks : 0));
}

}  // namespace

double expected_clocks(const Problem& problem, int element_bytes, bool channels_last, const DeviceTraits& device,
                       const HaloPlan& plan) {
  const bool two_terms = plan.terms == 2;
  const double units = static_cast<double>(plan.units()) / plan.splits;
  const double loads = plan.unit_loads() ? units * plan.chunks() : 1;
  const double chunk = chunk_clocks(element_bytes, channels_last, plan);
  const double further = plan.row_log > 0 ? kRowsChunkClocks : kLoaderChunkClocks;
  const double load = loads * (chunk + (plan.chunks() == 1 ? kLoadClocks / plan.slots : further));

  const double stages = static_cast<double>(most_stages(plan));  // of the slowest split
  const double stage_columns = plan.stage_products() * std::max<double>(plan.n, kProductColumns);
  const double in_flight = std::max(plan.ring - 1 - kHeldStages * plan.terms, 0.5);
  const double computed = stage_columns * (two_terms ? kTermsProductOverhead : kProductOverhead);
  const double arriving =
      plan.resident_weights ? 0 : std::max(kStageClocks / in_flight, kHaloStageBytes / kWeightBytesPerClock);
  const double products = stages * std::max(computed, arriving) + units * kUnitBeginClocks;
  const double store = store_clocks(element_bytes, plan, products);
  const double turn = products / 2 + stages * plan.stage_products() * kTurnProductClocks;  // of one warpgroup
  const double hidden = products * (plan.slots - 1) / loads;                               // of the load of a chunk
  const double arrives = chunk + (plan.row_log > 0 ? kRowsChunkLoadClocks : kChunkLoadClocks);
  const double exposed = plan.chunks() == 1 ? 0 : loads * std::max(arrives - hidden, 0.0);
  const double compute = (plan.alternate ? std::max(2 * turn, turn + store * kTurnStoreOverhead) : products + store) +
                         exposed * kExposedLoads;

  const double item =
      std::max(load, compute) + std::min(load, compute) * kOverlap + (plan.slots == 1 ? kSingleSlotLoads * load : 0);
  const double rounds = static_cast<double>(ceil_div(plan.items(), halo_grid(plan, device.multiprocessors).blocks));
  const auto positions = [](const Int3& size) { return static_cast<double>(size[0]) * size[1] * size[2]; };
  const double input = static_cast<double>(problem.batch) * problem.in_channels * positions(problem.input_size);
  const double output = static_cast<double>(problem.batch) * problem.out_channels * positions(problem.output_size());
  const double short_rows = plan.row_log > 0 ? kShortRowOverhead * ((kLineBytes / 2 >> plan.row_log) - 1) : 0;
  const double bytes_per_clock = kBytesPerClock * (memory_share(device) / memory_share(fitted_device()));
  double memory = (input * (1 + short_rows) + output) * element_bytes / device.multiprocessors / bytes_per_clock;
  double engine = 0;
  if (plan.staging.boxes()) {
    const double item_bytes = outputs_of_item(plan) * element_bytes;
    const double row = row_bytes(element_bytes, channels_last, plan);
    const double burst = item_bytes / units / kHaloMultiplyWarps / batches(plan.staging);
    if (channels_last) memory *= 1 + kBurstOverhead * std::max(burst / kBurstBytes - 1, 0.0);
    engine = rounds * item_bytes * (kEngineRowClocks / row + kEngineByteClocks);
  }
  if (plan.row_log > 0) engine += rounds * loads * position_rows_clocks(plan);
  const auto power = [](double clocks) { return std::pow(clocks, kSharpness); };
  return std::pow(power(rounds * item) + power(memory) + power(engine), 1 / kSharpness) + kStartClocks + chunk;
}

}  // namespace convt3d
