// A model with constants fitted to times measured on an H200. A multiprocessor multiplies, reads shared memory and L2,
// moves memory and issues instructions at the same time: the slowest of these bounds what its blocks take for a box
// each. A block alone takes what its loading warps or its multiplying warps take: few warps wait for their own
// instructions, and blocks beside it delay them further.
#include "engines/mma/correlation/cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/integer.h"
#include "engines/mma/correlation/memory.h"
#include "engines/mma/tile/load_cost.h"
#include "engines/mma/tile/multiprocessor_cost.h"

namespace convt3d::mma {
namespace {

// Clocks.
constexpr double kWeightLatency = 690;  // of L2
constexpr double kBlockWait = 4800;     // tables, barriers, the first bytes
// Instructions of a warp that multiplies.
constexpr double kStepInstructions = 5.7;   // beside products and reads of their factors
constexpr double kTwoSteps = 0.8;           // of a step's, that a warp with two steps waits for; fitted on an H100
constexpr double kWordReads = 7;            // to read sixteen positions word by word; counted, not fitted
constexpr double kBoxInstructions = 70;     // of a loading warp
constexpr double kSlotInstructions = 80;    // to take another slot of weights; fitted on an H100
constexpr double kStageInstructions = 72;   // to take another stage
constexpr double kPhaseInstructions = 160;  // to turn sums into places and stores
constexpr double kStoredInPairs = 2.2;      // of an element that is stored as half of a word; counted, not fitted
constexpr double kStagedElement = 2.65;     // of an element, on its way into shared memory
constexpr double kStagedInMatrix = 0.85;    // of an element of a matrix that is staged by stmatrix
constexpr double kStagedByMoves = 3;        // of one staged by movmatrix and stores; set by hand, counted are 2.5
constexpr double kInterleaved = 0.6;        // of one whose row is put together of two residues' matrices
constexpr double kStoredVector = 6.8;       // from there to memory, of a vector of a lane; counted, not fitted
constexpr double kMomentsOfElement = 12;    // gathered instead: counted, not fitted
constexpr double kSplitWait = 2200;         // clocks, until a block's sums are in L2, counted and known to be counted
constexpr double kDelayed = 0.74;           // of what others do on the multiprocessor, that a block or a warp waits for
// Bytes of memory that a run costs beside its own where it does not begin and end with what is fetched; and where it is
// stored element by element, as others write the rest of its first and last piece at another time.
constexpr double kTornRun = 32;
constexpr double kTornStore = 96;
// Of two terms, what a product takes beside what was expected of it: forwards of kb58 and kb2_100 on an H100, 1.4
// to 1.7.
constexpr double kTermsProduct = 1.5;
constexpr double kRoundingError = 1e-6;  // of a number of boxes
constexpr int kHalvings = 24;            // of the time that is searched
constexpr int64_t kMostWaves = 4;        // of blocks, one after another on a multiprocessor

// Bytes of memory that are fetched for each byte of the source that is read.
double fetched(const CorrelationPlan& plan) {
  const int32_t element_bytes = plan.source_bytes;
  const TileAxis& width = plan.tile.axis[2];
  const auto torn = [](double run) { return (run + kTornRun) / run; };
  if (plan.way == LoadWay::kRows) return torn(1.0 * element_bytes * plan.load.raw.span);
  if (has_channel_rows(plan.way)) return torn(1.0 * element_bytes * width.length);
  if (plan.way == LoadWay::kWidth) return torn(1.0 * element_bytes * width.box);
  const int32_t all = plan.k_channels * element_bytes;
  const int32_t run = std::min(plan.chunk_steps * kStepBytes, all);
  const bool whole = plan.chunks == 1 && plan.groups == 1 && width.stages() == 1 && width.components == width.step;
  if (whole) return torn(1.0 * run * width.rows());
  return run % kFetchedBytes == 0 && all % kFetchedBytes == 0 ? 1 : torn(run);
}

// Bytes of memory that are moved for each byte that is stored. Less than a fetch (kFetchedBytes) is read, and written
// again: at both ends of a run of neighbours, and where blocks of other residues have elements between.
double stored(const CorrelationPlan& plan, int32_t element_bytes, const DeviceTraits& device) {
  double all = static_cast<double>(plan.batch * plan.groups * plan.n_channels) * element_bytes;
  for (const Residues& residues : plan.residues) all *= residues.size;
  if (2 * all < static_cast<double>(device.l2_bytes)) return 1;  // others complete it there
  const int32_t width = plan.residues[2].count;
  const bool joined = plan.block_phases % width == 0;
  const double positions = std::min(plan.box[2], plan.residues[2].extent);
  if (plan.store == StoreWay::kPairs) {
    const double run = 2 * positions * element_bytes;
    return std::fmod(run, kFetchedBytes) == 0 ? 1 : (run + kTornRun) / run;
  }
  if (plan.store == StoreWay::kChannels) {
    const bool whole = joined && plan.n_blocks == 1 && plan.groups == 1;
    const double channels = std::min(shape_extent(plan.shape, plan.terms).n(), plan.n_channels) * element_bytes;
    const double run = whole ? positions * width * channels : channels;
    return std::fmod(run, kFetchedBytes) == 0 ? 1 : (run + kTornRun) / run;
  }
  if (width > 1 && !joined) {
    const double own = positions * element_bytes;
    return 2 * (own * width + kFetchedBytes) / own;
  }
  double run = positions * width * element_bytes;
  // Rows of the destination that a block has whole lie one after another.
  if (plan.boxes[3] == 1) {
    run = static_cast<double>(plan.residues[2].size) * element_bytes;
    const bool all = plan.block_phases % (width * plan.residues[1].count) == 0;
    if (all) run *= std::min(plan.box[1] * plan.residues[1].count, plan.residues[1].size);
  }
  const bool vectors = plan.row_vector * element_bytes == kPieceBytes;
  if (vectors && std::fmod(run, kFetchedBytes) == 0) return 1;
  return (run + (vectors ? kTornRun : kTornStore)) / run;
}

// Instructions of a lane for an element.
double store_instructions(const CorrelationPlan& plan, int32_t element_bytes, const DeviceTraits& device) {
  const int32_t of_lane = lane_channels(shape_extent(plan.shape, plan.terms).warp_n, element_bytes);
  if (plan.store == StoreWay::kChannels) return stored_in_channels(plan.channel_vector, of_lane);
  if (plan.store == StoreWay::kPairs) return kStoredInPairs;
  const bool interleaved = plan.stages_matrices && plan.joins_width && plan.residues[2].count > 1;
  const double in_matrix = device.stores_matrices() ? kStagedInMatrix : kStagedByMoves;
  return (plan.stages_matrices ? in_matrix : kStagedElement) + (interleaved ? kInterleaved : 0) +
         kStoredVector / plan.row_vector;
}

// Clocks of a multiprocessor.
double step_clocks(const CorrelationPlan& plan, const DeviceTraits& device) {
  const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
  return (extent.m() / 16) * (extent.n() / 8) * device.rates.product_clocks * (plan.terms == 2 ? 3 * kTermsProduct : 1);
}

// Clocks of the block that adds the sums of all blocks that share a tile, and for each block what L2 moves.
struct SplitClocks {
  double adds;
  double bytes;
};

SplitClocks split_clocks(const CorrelationPlan& plan, const DeviceTraits& device) {
  if (plan.k_splits == 1) return {0, 0};
  const auto tile = static_cast<double>(plan.tile_bytes());
  const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
  const int64_t pieces = ceil_div(plan.tile_bytes(), int64_t{16} * 32 * extent.warps());
  const int64_t fetches = ceil_div(pieces, sum_pieces(extent)) * ceil_div(plan.k_splits, sum_splits(extent));
  const double waits = static_cast<double>(fetches) * kWeightLatency;
  const double streams = plan.k_splits * tile / device.rates.l2_bytes;
  return {kSplitWait + at_once({waits, streams}), 2 * tile};
}

// What a box takes, in clocks.
struct BoxClocks {
  double begin;   // of a block, before its first box
  double alone;   // of a block that has a multiprocessor for itself
  double shared;  // of a multiprocessor, for each of its blocks

  // Beside blocks, it among them, of which each takes so much of the multiprocessor for a box.
  double of(int64_t blocks, double of_others) const {
    const double others = static_cast<double>(blocks - 1) * of_others;
    return at_once({alone + kDelayed * others, shared + others});
  }
};

double mean_taps(const CorrelationPlan& plan) {
  return static_cast<double>(plan.taps()) * plan.block_phases / static_cast<double>(plan.phases());
}

// Of a share of phases, whose number counts residues of the width first.
int32_t phase_block_taps(const CorrelationPlan& plan, int32_t block) {
  int32_t taps = 0;
  for (int32_t phase = block * plan.block_phases; phase < (block + 1) * plan.block_phases; ++phase) {
    int32_t rest = phase;
    int32_t of_phase = 1;
    for (size_t i = 3; i-- > 0;) {
      of_phase *= plan.residues[i].tap_count[rest % plan.residues[i].count];
      rest /= plan.residues[i].count;
    }
    taps += of_phase;
  }
  return taps;
}

// `taps`: of the phases that a block has. `stores`: else the epilogue only gathers moments.
BoxClocks box_clocks(const CorrelationPlan& plan, double taps, int32_t element_bytes, const DeviceTraits& device,
                     bool stores) {
  const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
  const double share = static_cast<double>(plan.block_phases) / static_cast<double>(plan.phases());
  const double split = static_cast<double>(plan.split_stages) / plan.stages();
  const double steps = taps * plan.chunks * plan.chunk_steps * split;
  const double loads = plan.split_stages * (plan.stages() == 1 ? 1.0 : plan.block_phases);
  const SplitClocks sums = split_clocks(plan, device);

  double written = static_cast<double>(plan.tile.images) * plan.block_phases * std::min(extent.n(), plan.n_channels);
  double read = static_cast<double>(plan.tile.images) * plan.k_channels * share * split / plan.n_blocks;
  for (size_t i = 0; i < 3; ++i) {
    written *= std::min(plan.box[i], plan.residues[i].extent);
    // Of a width that is contiguous all is fetched, even what no tap reads.
    const bool whole_width =
        i == 2 && (plan.way == LoadWay::kRows || plan.way == LoadWay::kWidth || has_channel_rows(plan.way));
    const TileAxis& axis = plan.tile.axis[i];
    read *= plan.box[i] * (whole_width ? axis.step : std::min(axis.components, axis.step));
  }

  // Of all warps.
  const double step_products = step_clocks(plan, device);
  const double conflicts = 1 + plan.tile.conflicts / 64.0;  // a read of each
  const double step_shared = extent.warps() *
                             (extent.warp_m * kStepBytes * conflicts + extent.warp_n * kStepBytes * plan.terms + 128) /
                             device.rates.shared_bytes;
  const LoadedTile stage{plan.tile, plan.load, plan.way, plan.masked, plan.source_bytes};
  const double weight_bytes = plan.weights_stay ? 0 : steps * step_bytes(extent, plan.terms);
  const double staged_stores =
      plan.staging_bytes == 0 || !stores ? 0 : written * ((plan.stages_matrices ? 2 : 4) + element_bytes);
  const double shared_memory =
      steps * step_shared + (loads * staging_bytes(stage) + weight_bytes + staged_stores) / device.rates.shared_bytes;
  const double l2 = (weight_bytes + loads * source_bytes(stage) + sums.bytes) / (kL2Share * device.rates.l2_bytes);
  const double from_memory = stay_in_l2({&plan.copy}, device) && plan.copy.exists ? 0 : fetched(plan);
  const double leaving = stores ? written * stored(plan, element_bytes, device) / plan.k_splits : 0;
  const double memory = (leaving * element_bytes + read * from_memory * plan.source_bytes) /
                        (device.memory.ahead * device.bytes_per_ms / device.clocks_per_ms / device.multiprocessors);

  // Of one warp.
  const double products = extent.warp_m / 16.0 * extent.warp_n / 8.0 * (plan.terms == 2 ? 3 : 1);
  const double rounded = plan.terms == 1 && element_bytes == 4 ? 4 : 0;  // words of sixteen positions
  const double reads = has_channel_rows(plan.way) ? kWordReads : 1;
  const double step_others = extent.warp_m / 16.0 * (reads + rounded * kRoundedWord) +
                             std::max(1.0, extent.warp_n / 16.0) * plan.terms + kStepInstructions +
                             (plan.terms == 2 ? products / 3 : 0);
  const double slots = plan.weights_stay ? 0 : steps / plan.slot_steps;
  const double storing =
      written / (32 * extent.warps()) * (stores ? store_instructions(plan, element_bytes, device) : kMomentsOfElement);
  const double beside_steps =
      slots * kSlotInstructions + loads * kStageInstructions + plan.block_phases * kPhaseInstructions + storing;
  const double others = steps * step_others + beside_steps;
  const LoadingCost of_stage = loading_cost(stage, device);
  const double issued = (extent.warps() * (steps * products + others) +
                         kSourceWarps * (loads * of_stage.instructions + kBoxInstructions)) /
                        (kSchedulers * kIssued);

  // Warps issue their products as fast as the tensor cores take them. Of two on a scheduler one multiplies, in part,
  // while the other one waits for its own instructions.
  const double of_scheduler = extent.warps() / kSchedulers;
  const double multiplied = steps * std::max(step_products / kProductShare, step_shared);
  const bool two_steps = has_two_steps(extent, plan.terms, has_channel_rows(plan.way));
  const double waited = steps * step_others * (two_steps ? kTwoSteps : 1) + beside_steps;
  const double multiplying =
      std::max(multiplied, multiplied * (1 + kDelayed * (of_scheduler - 1)) / of_scheduler + waited * kAloneClocks);
  const double weight_load = slots * kWeightLatency / std::max(1, plan.slots - 1);
  const double loading = loads * of_stage.clocks + kBoxInstructions * kAloneClocks;
  const double arriving = std::max(l2, memory);
  const double source_load = copies(plan.way)
                                 ? at_once({loading, (arriving + loads * device.memory.latency_clocks) / plan.ahead})
                                 : loading + arriving;
  const double alone = plan.buffers > 1 ? at_once({source_load, weight_load, multiplying})
                                        : source_load + std::max(weight_load, multiplying);
  const double begin =
      kBlockWait + device.memory.latency_clocks + of_stage.clocks +
      (plan.weights_stay ? plan.weight_steps * step_bytes(extent, plan.terms) / device.rates.l2_bytes : 0);
  return {begin, alone + sums.adds,
          at_once({steps * step_products / kProductShare, shared_memory, l2, memory, issued})};
}

// Packing, and what blocks take, in clocks, all at once or one after another.
double launches_ms(const CorrelationPlan& plan, double computing, const DeviceTraits& device) {
  const double packing = static_cast<double>(plan.packed_bytes) / (device.memory.packed * device.bytes_per_ms);
  const int64_t portions = portion_count(plan.portions, plan.boxes);
  return static_cast<double>(portions) * computing / device.clocks_per_ms + device.launches.packed + packing +
         portions_ms(portions, device);
}

// With so many blocks for a share, which take turns at the boxes.
double walked_ms(const CorrelationPlan& plan, const BoxClocks& box, const DeviceTraits& device, int64_t walkers) {
  const int64_t turns = ceil_div(plan.launch_boxes(), walkers);
  const int64_t of_multiprocessor = ceil_div(plan.shares() * plan.k_splits * walkers, device.multiprocessors);
  const int64_t beside = std::min<int64_t>(of_multiprocessor, plan.blocks_at_once);
  const double each = box.begin + static_cast<double>(turns) * box.of(beside, box.shared);
  return launches_ms(plan, static_cast<double>(ceil_div(of_multiprocessor, beside)) * each, device);
}

// Shares of phases that have as many taps.
struct PhaseClass {
  int32_t taps;
  int64_t count;
  BoxClocks box;
};

// Whether all residues of each axis have as many taps.
bool taps_alike(const CorrelationPlan& plan) {
  return std::all_of(plan.residues.begin(), plan.residues.end(), [](const Residues& axis) {
    return std::all_of(axis.tap_count, axis.tap_count + axis.count,
                       [&](int16_t taps) { return taps == axis.tap_count[0]; });
  });
}

// None where all are alike, or where they are too many to tell apart.
std::vector<PhaseClass> phase_classes(const CorrelationPlan& plan, int32_t element_bytes, const DeviceTraits& device) {
  std::vector<PhaseClass> classes;
  if (plan.phase_blocks() == 1 || plan.phase_blocks() > kMostPhaseBlocks || taps_alike(plan)) return classes;
  for (int32_t block = 0; block < plan.phase_blocks(); ++block) {
    const int32_t taps = phase_block_taps(plan, block);
    auto found = std::find_if(classes.begin(), classes.end(), [&](const PhaseClass& one) { return one.taps == taps; });
    if (found == classes.end()) {
      found = classes.insert(found, {taps, 0, box_clocks(plan, taps, element_bytes, device, true)});
    }
    ++found->count;
  }
  return classes;
}

// Each share of phases has as many blocks as end with the others', and all are there at once.
struct Walked {
  double clocks;
  std::vector<int64_t> walkers;  // of each class; none where there is no room for all
};

Walked walk_apart(const CorrelationPlan& plan, const std::vector<PhaseClass>& classes, const DeviceTraits& device) {
  const int64_t boxes = plan.launch_boxes();
  const int64_t alike = plan.groups * plan.n_blocks * plan.k_splits;
  const int64_t room = int64_t{device.multiprocessors} * plan.blocks_at_once;
  double others = 0;  // shared clocks of a box, of the mean of all blocks
  double all = 0;
  for (const PhaseClass& one : classes) {
    others += static_cast<double>(one.count) * one.box.shared * one.box.shared;
    all += static_cast<double>(one.count) * one.box.shared;
  }
  others /= all;
  const auto of_box = [&](const PhaseClass& one) { return one.box.of(plan.blocks_at_once, others); };
  // So many blocks, or more than there is room for.
  const auto count = [&](double clocks, std::vector<int64_t>* walkers) {
    int64_t blocks = 0;
    for (const PhaseClass& one : classes) {
      const auto turns = static_cast<int64_t>(std::min(1e9, (clocks - one.box.begin) / of_box(one) + kRoundingError));
      if (turns < 1) return room + 1;
      const int64_t of_class = ceil_div(boxes, std::min(turns, boxes));
      blocks += one.count * of_class * alike;
      if (walkers != nullptr) walkers->push_back(of_class);
    }
    return blocks;
  };
  double most = 0;
  for (const PhaseClass& one : classes) {
    most = std::max(most, one.box.begin + static_cast<double>(boxes) * of_box(one));
  }
  if (count(most, nullptr) > room) return {};
  double least = 0;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (least + most) / 2;
    (count(middle, nullptr) > room ? least : most) = middle;
  }
  Walked walked{most, {}};
  if (count(most, &walked.walkers) > room) return {};
  return walked;
}

}  // namespace

double box_products(const CorrelationPlan& plan, const DeviceTraits& device, int32_t steps) {
  return 1.0 * plan.taps() * steps * step_clocks(plan, device);
}

double products_ms(const CorrelationPlan& plan, const DeviceTraits& device, int32_t steps) {
  return box_products(plan, device, steps) * static_cast<double>(plan.box_count() * plan.groups * plan.n_blocks) /
         (device.multiprocessors * device.clocks_per_ms);
}

void set_cost(CorrelationPlan& plan, int32_t element_bytes, const DeviceTraits& device) {
  const double copying = copies_ms(plan.portions, {&plan.copy}, plan.boxes, plan.batch, device);
  const std::vector<PhaseClass> classes = phase_classes(plan, element_bytes, device);
  if (classes.size() > 1) {
    if (const Walked walked = walk_apart(plan, classes, device); !walked.walkers.empty()) {
      plan.walkers = 0;
      plan.first_walker[0] = 0;
      for (int32_t block = 0; block < plan.phase_blocks(); ++block) {
        const int32_t taps = phase_block_taps(plan, block);
        size_t number = 0;
        while (classes[number].taps != taps) ++number;
        const auto at = static_cast<size_t>(block);
        plan.first_walker[at + 1] = plan.first_walker[at] + static_cast<int32_t>(walked.walkers[number]);
      }
      plan.cost_ms = launches_ms(plan, walked.clocks, device) + copying;
      return;
    }
  }
  const BoxClocks box = box_clocks(plan, mean_taps(plan), element_bytes, device, true);
  // Blocks keep their share. Few walkers leave multiprocessors idle, many begin often.
  const int64_t boxes = plan.launch_boxes();
  plan.cost_ms = 0;
  for (int64_t waves = 1; waves <= kMostWaves; ++waves) {
    const int64_t room = int64_t{waves} * device.multiprocessors * plan.blocks_at_once;
    const int64_t most = std::clamp<int64_t>(room / (plan.shares() * plan.k_splits), 1, boxes);
    const int64_t walkers = ceil_div(boxes, ceil_div(boxes, most));
    const double cost = walked_ms(plan, box, device, walkers) + copying;
    if (waves > 1 && cost >= plan.cost_ms) continue;
    plan.cost_ms = cost;
    plan.walkers = walkers;
  }
}

double unstored_ms(const CorrelationPlan& plan, int32_t element_bytes, const DeviceTraits& device) {
  const double copying = copies_ms(plan.portions, {&plan.copy}, plan.boxes, plan.batch, device);
  if (plan.walkers > 0) {
    const BoxClocks box = box_clocks(plan, mean_taps(plan), element_bytes, device, false);
    return walked_ms(plan, box, device, plan.walkers) + copying;
  }
  // With the walkers that storing has.
  double clocks = 0;
  for (int32_t block = 0; block < plan.phase_blocks(); ++block) {
    const BoxClocks box = box_clocks(plan, phase_block_taps(plan, block), element_bytes, device, false);
    const auto at = static_cast<size_t>(block);
    const int64_t turns = ceil_div(plan.launch_boxes(), plan.first_walker[at + 1] - plan.first_walker[at]);
    clocks = std::max(clocks, box.begin + static_cast<double>(turns) * box.of(plan.blocks_at_once, box.shared));
  }
  return launches_ms(plan, clocks, device) + copying;
}

}  // namespace convt3d::mma
