#include "engines/wgmma/plan/cost.h"

#include <algorithm>
#include <cmath>

#include "core/devices.h"
#include "core/integer.h"
#include "core/multiprocessor.h"
#include "engines/wgmma/plan/plan.h"
#include "engines/wgmma/plan/problem.h"

namespace convt3d {
namespace {

// Fitted to measured times on an H200: 8,000 candidates of the public layers in three precisions and both layouts, most
// of them near the cheapest; near the fastest the model is right to 16 % (root mean square). Those of N-major panels
// are from trials with some 290 candidates of the layers with kernel == stride.

// What makes memory slower than boxes find it.
constexpr double kBurstBytes = 7550;           // that a warp may hand over at once, where channels are contiguous
constexpr double kBurstBytesOverhead = 0.603;  // of each further so many
constexpr int kLineBytes = 128;                // of the caches
constexpr double kShortLineOverhead = 0.2;     // of lines of N-major panels, for each further one of 128 bytes
// Memory moves so many bytes at least. Where a chunk has a part of them, they leave the L2 before the next chunk has
// the next part if the chunks of all blocks fill much of it: from the first share on some, from the second on all.
// Fitted to input gradients of kernel == stride.
constexpr int kMovedBytes = 64;
constexpr double kSomeLeave = 0.15;
constexpr double kAllLeave = 0.4;
// What TMA takes for a row of a box.
constexpr double kTmaRowClocks = 2.92;
constexpr double kTmaByteClocks = 0.00204;
// Memory, TMA and all else that a block does are the more in each other's way the closer they are.
constexpr double kSharpness = 12.7;

constexpr double kLoaderBytesPerClock = 2.49;  // what threads load
constexpr double kTransposeBytesPerClock = 14;
constexpr double kTranspose16BytesPerClock = 7.76;  // of 16-bit elements
constexpr double kPlanesBytesPerClock = 11.2;       // of boxes of planes
constexpr double kPlanes16BytesPerClock = 9.94;
constexpr double kTermsPlanesRate = 0.623;
constexpr double kTransposedBoxClocks = 111;  // of each box
// Of both rates, where positions of a width are folded; of input gradients on an H100.
constexpr double kFoldedWidthRate = 0.32;
constexpr double kFoldedWidth16Rate = 0.45;
constexpr double kTermsBoxOverhead = 2.75;
constexpr double kCopyBytesPerClock = 25.3;
constexpr double kCopyTermsRate = 0.402;
constexpr double kLoadClocks = 4140;             // until a tile begins to arrive
constexpr double kChunkLoadClocks = 4720;        // until a chunk arrives, which the products of the chunks before hide
constexpr double kNMajorChunkLoadClocks = 2400;  // until a chunk of N-major panels arrives
constexpr double kExposedLoads = 0.162;          // of what they do not hide
constexpr double kLoaderChunkClocks = 1290;      // of a chunk, for the producers, beside its bytes
constexpr double kNMajorChunkClocks = 300;
// Of the launch and of the packing before it, until products begin. A fit to the suite gave 6,320; small layers that it
// did not know take 12,000 more on an H100 and an H200, large ones no more.
constexpr double kStartClocks = 16000;
constexpr double kSingleStageLoads = 0.397;  // of the load, which nothing hides where there is one stage of tiles
constexpr double kOverlap = 0.153;           // of the shorter of loading and computing, what the longer does not hide

constexpr double kProductColumns = 90.6;  // an instruction of fewer takes as long
constexpr double kProductOverhead = 1.1;
constexpr double kTermsProductOverhead = 1.1;
constexpr double kPingPongProductClocks = 29.2;  // more for a product while one warpgroup multiplies alone
constexpr double kPingPongStoreOverhead = 1.1;
constexpr double kStageClocks = 958;  // until a stage of weights arrives
constexpr double kWeightBytesPerClock = 21.6;
constexpr double kHeldStages = 0.512;  // of the stages, for each term, into which nothing is on its way

constexpr double kBoxOutputClocks = 0.0434;  // of staging an output
constexpr double kBoxByteClocks = 0.00113;   // until TMA has read it
constexpr double kBox16Factor = 0.0809;      // of 16-bit elements
constexpr double kBurstsOverhead = 1.9;      // of staging, where a pass has several bursts
constexpr double kRunOutputClocks = 0.0425;  // of staging an output
constexpr double kRun16Factor = 0.676;       // of staging an output of 16 bits
constexpr double kRunClocks = 67.6;          // of a channel's run, that a warp stores
constexpr double kRunPieceClocks = 44.3;     // of each kRunPieceBytes of it
constexpr int kRunPieceBytes = 256;
constexpr double kThreadOutputClocks = 0.35;  // of an output that a thread stores: least in counters of older kernels
constexpr double kRegisterOutputClocks = 0.0199;
constexpr double kHiddenProducts = 0.0367;  // during which a pass's only burst is stored in the background
constexpr double kPassBeginClocks = 1020;   // until a pass's first product
constexpr double kPassClocks = 625;         // from its last one until it stores
constexpr double kHandOverClocks = 251;     // of a box, or another segment
constexpr double kBurstClocks = 11.2;       // of a further burst
constexpr double kRunBurstClocks = 108;
constexpr double kPartClocks = 3680;  // of what threads store although the rest are boxes

// Of gathering moments, an output; set by reasoning. With it two forwards were expected at 0.70 to 1.03 of what seven
// cases took on an H200.
constexpr double kMomentOutputClocks = 0.14;

// A multiprocessor's share of what boxes reach of the device's memory, in bytes per clock.
double bytes_per_clock(const DeviceTraits& device) {
  return device.memory.boxes * (device.bytes_per_ms / device.clocks_per_ms / device.multiprocessors);
}

double outputs_of_work_tile(const WgmmaPlanParts& plan) {
  return static_cast<double>(plan.arrangement.slabs) * kWgmmaSlabRows / plan.tile.splits * plan.arrangement.sets() *
         plan.arrangement.stored_phases() * std::min<double>(plan.tile.instruction.n, plan.tile.columns) * 2;
}

// The share of the input that is fetched: of folds apart those that taps read, of which a contiguous width has all.
double read_folds(const WgmmaPlanParts& plan) {
  if (!plan.arrangement.folds_apart) return 1;
  double share = 1;
  for (int i = 0; i < (plan.load.transposes() ? 2 : 3); ++i) {
    const WgmmaAxis& axis = plan.arrangement.axis[static_cast<size_t>(i)];
    share *= static_cast<double>(axis.outer) / axis.fold;
  }
  return share;
}

// Of a work tile, each with a result that is stored.
double stored_passes(const WgmmaPlanParts& plan) {
  return static_cast<double>(plan.split_passes()) / plan.arrangement.summed_phases();
}

// Of the rows of boxes.
double row_bytes(int element_bytes, const WgmmaPlanParts& plan) {
  return plan.store.channels_contiguous ? plan.arrangement.slab_channels() * element_bytes : plan.store.pitch;
}

double chunk_bytes(const WgmmaPlanParts& plan) {
  const double positions = static_cast<double>(plan.tile.halo_positions()) * plan.tile.images();
  return positions * plan.arrangement.folds() * plan.panels.in_chunk * plan.panels.position_bytes;
}

// How much of the input memory moves again.
double fetched_again(const WgmmaProblem& problem, int element_bytes, const DeviceTraits& device,
                     const WgmmaPlanParts& plan, double input_bytes) {
  const double position = static_cast<double>(problem.in_channels) * element_bytes;
  const double parts = std::min<double>(kMovedBytes, position) / plan.panels.position_bytes;
  if (plan.load.way() != WgmmaLoadWay::kChannelBoxes || plan.panels.chunks() == 1 || parts <= 1) return 0;
  const double filled = std::min(chunk_bytes(plan) * plan.grid.blocks * parts, input_bytes);
  const double share = filled / static_cast<double>(device.l2_bytes);
  return (parts - 1) * std::clamp((share - kSomeLeave) / (kAllLeave - kSomeLeave), 0.0, 1.0);
}

// What TMA takes for the lines of positions of one chunk of N-major panels.
double n_major_clocks(const WgmmaPlanParts& plan) {
  constexpr int kElementBytes = 2;
  return chunk_bytes(plan) / (kElementBytes << plan.load.as_n_major().line_log) * kTmaRowClocks;
}

// Of one chunk, from memory to where it is multiplied.
double chunk_clocks(int element_bytes, const WgmmaPlanParts& plan) {
  const double bytes = chunk_bytes(plan);
  const bool two_terms = plan.product.terms == 2;
  const int chunk_pieces = plan.panels.in_chunk * plan.panels.position_bytes / 16;
  const double box_clocks = kTransposedBoxClocks * (two_terms ? kTermsBoxOverhead : 1);
  switch (plan.load.way()) {
    case WgmmaLoadWay::kNMajorBoxes:
      return std::max(bytes / kCopyBytesPerClock, n_major_clocks(plan));
    case WgmmaLoadWay::kLineBoxes: {
      const WgmmaLineBoxes& lines = plan.load.as_line_boxes();
      double rate = element_bytes == 2 ? kTranspose16BytesPerClock : kTransposeBytesPerClock;
      const OneOrTwo fold = plan.arrangement.axis[2].fold;
      if (fold.is_two()) rate *= element_bytes == 2 ? kFoldedWidth16Rate : kFoldedWidthRate;
      const int boxes = lines.in_height * lines.in_depth * (plan.arrangement.folds() / fold) * chunk_pieces;
      return bytes / (rate * plan.tile.halo[2] * fold / lines.width) + boxes * box_clocks;
    }
    case WgmmaLoadWay::kPlaneBoxes: {
      const double rate = element_bytes == 2 ? kPlanes16BytesPerClock : kPlanesBytesPerClock;
      const int boxes = plan.tile.images() / plan.load.as_plane_boxes().images * chunk_pieces;
      return bytes / (rate * (two_terms ? kTermsPlanesRate : 1)) + boxes * box_clocks;
    }
    case WgmmaLoadWay::kChannelBoxes:
      return bytes / (kCopyBytesPerClock * (two_terms ? kCopyTermsRate : 1));
    case WgmmaLoadWay::kElements:
    case WgmmaLoadWay::kPieces:
      break;
  }
  return bytes / kLoaderBytesPerClock;
}

// Of all outputs of a work tile, whose products take `products`.
double store_clocks(int element_bytes, const WgmmaPlanParts& plan, double products) {
  const WgmmaStore& store = plan.store;
  const double passes = stored_passes(plan);
  const double outputs = outputs_of_work_tile(plan);
  const double bytes = outputs * element_bytes;
  const bool half = element_bytes == 2;
  double stage;  // by the consumers
  double leave;  // by TMA or, of runs, by the consumers
  if (store.boxes()) {
    stage = outputs * kBoxOutputClocks * (bursts(plan.tile, store) > 1 ? kBurstsOverhead : 1);
    leave = bytes * kBoxByteClocks * (half ? kBox16Factor : 1);
  } else if (store.runs()) {
    stage = outputs * kRunOutputClocks * (half ? kRun16Factor : 1);
    const double line_bytes = static_cast<double>(std::min(store.columns, plan.tile.size[2])) * store.column_bytes;
    const WgmmaRuns& of_lines = store.as_runs();
    const double run_bytes = of_lines.joined_lines ? line_bytes * of_lines.lines * store.burst : line_bytes;
    const double runs =
        passes * (of_lines.joined_lines ? bursts(plan.tile, store) : std::max(store.segments[0], store.segments[1]));
    leave = runs * plan.arrangement.slab_channels() *
            (kRunClocks + kRunPieceClocks * std::ceil(run_bytes / kRunPieceBytes));
  } else {
    stage = outputs * (store.registers() ? kRegisterOutputClocks : kThreadOutputClocks);
    leave = 0;
  }
  const int further = bursts(plan.tile, store) - 1;
  if (store.boxes() && further == 0 && store.halves == 1) leave = std::max(leave - kHiddenProducts * products, 0.0);
  const int64_t segments =
      ceil_div(std::max(store.segments[0], store.segments[1]), store.boxes() ? store.box_lines() : 1);
  return stage + leave +
         passes * (kPassClocks + static_cast<double>(segments) * kHandOverClocks +
                   further * (store.runs() ? kRunBurstClocks : kBurstClocks) + (store.part[0] >= 0 ? kPartClocks : 0));
}

}  // namespace

double tma_row_clocks(int row_bytes) { return kTmaRowClocks + row_bytes * kTmaByteClocks; }

double expected_clocks(const WgmmaProblem& problem, int element_bytes, const DeviceTraits& device,
                       const WgmmaPlanParts& plan, bool stores) {
  const WgmmaPipelines& pipelines = plan.pipelines;
  const bool two_terms = plan.product.terms == 2;
  const bool n_major = plan.load.n_major();
  const bool whole = plan.panels.chunks() * plan.arrangement.summed_phases() == 1;
  const double passes = stored_passes(plan);
  const double loads = plan.loads_each_pass() ? static_cast<double>(plan.split_passes()) * plan.panels.chunks() : 1;
  const double chunk = chunk_clocks(element_bytes, plan);
  const double further = n_major ? kNMajorChunkClocks : kLoaderChunkClocks;
  const double load = loads * (chunk + (whole ? kLoadClocks / pipelines.tile_stages : further));

  const double stages = static_cast<double>(most_split_stages(plan.arrangement, plan.tile, plan.loops));
  const double stage_columns = plan.loops.stage_products() * std::max<double>(plan.tile.instruction.n, kProductColumns);
  const double in_flight = std::max(pipelines.weight_stages - 1 - kHeldStages * plan.product.terms, 0.5);
  const double computed = stage_columns * (two_terms ? kTermsProductOverhead : kProductOverhead);
  const double arriving = pipelines.resident_weights
                              ? 0
                              : std::max(kStageClocks / in_flight, kWgmmaWeightStageBytes / kWeightBytesPerClock);
  const double read = pipelines.skips_unread ? read_share(plan.arrangement, plan.tile) : 1;
  const double products = read * stages * std::max(computed, arriving) + passes * kPassBeginClocks;
  const double store = stores ? store_clocks(element_bytes, plan, products)
                              : passes * kPassClocks + outputs_of_work_tile(plan) * kMomentOutputClocks;
  // Of one warpgroup, in ping-pong.
  const double turn = products / 2 + stages * plan.loops.stage_products() * kPingPongProductClocks;
  const double hidden = products * (pipelines.tile_stages - 1) / loads;  // of the load of a chunk
  const double arrives = chunk + (n_major ? kNMajorChunkLoadClocks : kChunkLoadClocks);
  const double exposed = whole ? 0 : loads * std::max(arrives - hidden, 0.0);
  const double compute =
      (pipelines.ping_pong ? std::max(2 * turn, turn + store * kPingPongStoreOverhead) : products + store) +
      exposed * kExposedLoads;

  const double work_tile = std::max(load, compute) + std::min(load, compute) * kOverlap +
                           (pipelines.tile_stages == 1 ? kSingleStageLoads * load : 0);
  const double rounds = static_cast<double>(ceil_div(plan.grid.work_tiles, plan.grid.blocks));
  const auto positions = [](const Int3& size) { return static_cast<double>(size[0]) * size[1] * size[2]; };
  const double input =
      static_cast<double>(problem.batch) * problem.in_channels * positions(problem.input_size) * read_folds(plan);
  const double output =
      stores ? static_cast<double>(problem.batch) * problem.out_channels * positions(problem.output_size) : 0;
  const double short_lines =
      n_major ? kShortLineOverhead * ((kLineBytes / 2 >> plan.load.as_n_major().line_log) - 1) : 0;
  const double again = fetched_again(problem, element_bytes, device, plan, input * element_bytes);
  double memory =
      (input * (1 + short_lines + again) + output) * element_bytes / device.multiprocessors / bytes_per_clock(device);
  double tma = 0;
  if (stores && plan.store.boxes()) {
    const double stored = outputs_of_work_tile(plan) * element_bytes;
    const double burst = stored / passes / kWgmmaConsumerWarps / bursts(plan.tile, plan.store);
    if (plan.store.channels_contiguous) memory *= 1 + kBurstBytesOverhead * std::max(burst / kBurstBytes - 1, 0.0);
    tma = rounds * stored * (kTmaRowClocks / row_bytes(element_bytes, plan) + kTmaByteClocks);
  }
  if (n_major) tma += rounds * loads * n_major_clocks(plan);
  const auto power = [](double clocks) { return std::pow(clocks, kSharpness); };
  double copying = 0;
  if (plan.copy.exists) {
    copying = (copy_ms(plan.copy, problem.batch, device) + device.launches.next) * device.clocks_per_ms;
  }
  return copying + std::pow(power(rounds * work_tile) + power(memory) + power(tma), 1 / kSharpness) + kStartClocks +
         chunk;
}

}  // namespace convt3d
