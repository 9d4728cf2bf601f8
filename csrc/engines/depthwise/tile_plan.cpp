#include "engines/depthwise/tile_plan.h"

#include <algorithm>
#include <climits>
#include <sstream>
#include <vector>

#include "core/access.h"
#include "core/bias_taps.h"
#include "core/integer.h"

namespace convt3d {
namespace {

// Constants, not a device's own, so that the order of summation and every bit of a result is the same on all.
constexpr int64_t kWeightGradBlocks = 1024;
// Below this many positions a split costs more in its partial sums than it gains.
constexpr int64_t kLeastSplitPositions = 512;
constexpr int64_t kFewBlocks = 512;  // below this many, multiprocessors stand idle

// Instructions, assumed: of a thread's turn at a row of a box and of each of its loads, of a block's beginning, of a
// row of taps and of a run.
constexpr double kRowClocks = 60;
constexpr double kLoadClocks = 20;
constexpr double kQuadClocks = 28;
constexpr double kMaskedFactor = 2;
constexpr double kBlockClocks = 120;
constexpr double kProductsOverhead = 22;
constexpr double kKnownProductsOverhead = 12;  // of three taps
constexpr double kRunClocks = 110;
constexpr double kWeightClocks = 25;
// What a byte of L2 takes, in instructions of a multiprocessor that could have been issued meanwhile: about half of
// them are.
constexpr double kByteClocks = 1.5;
constexpr int kThreadsAtATime = 128;  // instructions of a multiprocessor in a clock
constexpr int64_t kSectorBytes = 32;
constexpr int64_t kBiasFloats = kDepthwiseTileThreads * 2;  // a double of each thread
constexpr double kBiasClocks = 2.5;                         // of an output of a tile that is summed

int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }
int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -ceil_div(-a, b); }

bool is_taken(const Problem& problem, DataType dtype) {
  if (dtype == DataType::kFloat64 || problem.batch == 0) return false;
  if (problem.in_channels_per_group() != 1 || problem.out_channels_per_group() != 1) return false;
  for (int i = 0; i < 3; ++i) {
    if (problem.stride[i] > 2 || problem.kernel_size[i] > kDepthwiseMaxTaps) return false;
    if (problem.dilation[i] != 1 && problem.kernel_size[i] > 1) return false;
  }
  return true;
}

// Distances between floats in shared memory.
void set_pitches(DepthwiseBox& box, int32_t tile_channels) {
  box.column_pitch = box.extent[1] | 1;
  box.plane_pitch = box.columns * box.column_pitch;
  box.channel_pitch = box.extent[0] * box.plane_pitch;
  if (tile_channels == 1) return;
  const int32_t apart = 32 / tile_channels;  // banks from a channel to the next, times an odd number
  while (box.channel_pitch % (2 * apart) != apart) ++box.channel_pitch;
}

int64_t box_floats(const DepthwiseBox& box, int32_t tile_channels) {
  return round_up(int64_t{tile_channels} * box.channel_pitch, 4);
}

// What a tile's box of a tensor is along one axis, for tile 0; `advance` positions further on for each next one.
struct Span {
  int64_t first;
  int64_t extent;
  int64_t advance;
};

Span source_span(const DepthwiseTilePlan& plan, int axis, int64_t tile) {
  const int64_t stride = plan.stride[axis];
  const int64_t padding = plan.padding[axis];
  const int64_t taps = plan.taps[axis];
  if (plan.op != Operator::kForward) return {-padding, (tile - 1) * stride + taps, tile * stride};
  if (axis == 1 && plan.run == DepthwiseRun::kSpread) {
    const int64_t lead = 3 - plan.skipped_rows;
    return {(padding + plan.first_slot) / 2 - lead, tile / 2 + lead, tile / 2};
  }
  const int64_t first = floor_div(padding - taps + 1, stride);
  return {first, floor_div(tile - 1 + padding, stride) - first + 1, tile / stride};
}

void set_span(DepthwiseBox& box, int axis, const Span& span) {
  box.first[axis] = narrow(span.first);
  box.extent[axis] = narrow(span.extent);
  box.advance[axis] = narrow(span.advance);
  if (axis < 2) box.by_extent[axis] = make_divisor(span.extent);
}

DepthwiseTilePlan base_plan(Operator op, const Problem& problem, const Operands& operands, int64_t bytes) {
  DepthwiseTilePlan plan{};
  plan.op = op;
  plan.run = problem.stride[1] == 1     ? DepthwiseRun::kStep1
             : op == Operator::kForward ? DepthwiseRun::kSpread
                                        : DepthwiseRun::kStep2;
  plan.batch = problem.batch;
  plan.channels = narrow(problem.groups);
  plan.masked = operands.mask.present;
  const Int3 output_size = problem.output_size();
  for (int i = 0; i < 3; ++i) {
    plan.taps[i] = narrow(problem.kernel_size[i]);
    plan.stride[i] = {narrow(problem.stride[i])};
    plan.padding[i] = narrow(problem.padding[i]);
    plan.size[i] = narrow(op == Operator::kForward ? output_size[i] : problem.input_size[i]);
  }
  if (plan.run == DepthwiseRun::kSpread) {
    plan.first_slot = plan.padding[1] % 2;
    plan.skipped_rows = 3 - (plan.first_slot + plan.taps[1] - 1) / 2;
  }
  const auto set_access = [&](DepthwiseBox& box, const OperandTraits& tensor, const OperandTraits& mask,
                              const Int3& size) {
    box.by_channels = tensor.stride[1] == 1 && plan.channels > 1;
    const auto has_pieces = [&](const OperandTraits& of) {
      return box.by_channels ? has_quads(of, bytes, plan.channels) : has_row_pieces(of, bytes, size[2], kAccessQuad);
    };
    box.quads = has_pieces(tensor) && (!mask.present || has_pieces(mask));
  };
  set_access(plan.box[0], operands.first, operands.mask, op == Operator::kForward ? problem.input_size : output_size);
  if (op == Operator::kWeightGrad) set_access(plan.box[1], operands.second, {}, problem.input_size);
  plan.by_channels = plan.box[op == Operator::kWeightGrad ? 1 : 0].by_channels;
  if (op != Operator::kWeightGrad) plan.by_channels = operands.result.stride[1] == 1 && plan.channels > 1;
  return plan;
}

// Tiles of equal parts of an axis, in whole units, and shorter ones for axes that are longer than any tile.
std::vector<int64_t> tile_extents(int64_t size, int64_t unit, int64_t least) {
  constexpr int64_t kMost = 128;
  std::vector<int64_t> found;
  for (int64_t parts = ceil_div(size, kMost);; parts += std::max<int64_t>(1, parts / 2)) {
    const int64_t extent = round_up(std::max(least, ceil_div(size, parts)), unit);
    if (found.empty() || extent < found.back()) found.push_back(extent);
    if (extent <= round_up(least, unit)) return found;
  }
}

// Loads of a row of the box.
int64_t row_pieces(const DepthwiseTilePlan& plan, const DepthwiseBox& box) {
  const int64_t size = box.quads ? kAccessQuad : 1;
  return box.by_channels ? box.extent[2] * plan.tile_channels / size : box.columns / size;
}

// Few enough threads that each has several loads, and enough for whole sectors.
int32_t row_lanes(const DepthwiseTilePlan& plan, const DepthwiseBox& box, int64_t bytes) {
  const int64_t sector = kSectorBytes / (bytes * (box.quads ? kAccessQuad : 1));
  const int64_t wanted = std::max(sector, ceil_div(row_pieces(plan, box), 2 * kDepthwiseLoadsAtATime));
  int32_t lanes = box.by_channels ? plan.tile_channels / (box.quads ? kAccessQuad : 1) : 1;  // each has a channel's
  while (lanes < wanted && lanes < 32) lanes *= 2;
  return lanes;
}

double stage_clocks(const DepthwiseTilePlan& plan, const DepthwiseBox& box, int64_t bytes) {
  const int64_t lines = int64_t{box.extent[0]} * box.extent[1];
  const int64_t rows = box.by_channels ? lines : lines * plan.tile_channels;
  const int64_t threads = round_up(rows * box.lanes, kDepthwiseTileThreads);
  const int64_t loads = ceil_div(row_pieces(plan, box), box.lanes);
  const double instructions = static_cast<double>(threads) *
                              (kRowClocks + static_cast<double>(loads) * (box.quads ? kQuadClocks : kLoadClocks));
  const int64_t row_bytes = box.by_channels ? box.extent[2] * round_up(plan.tile_channels * bytes, kSectorBytes)
                                            : box.extent[2] * bytes + kSectorBytes;
  const double clocks = instructions + static_cast<double>(rows * row_bytes) * kByteClocks;
  return plan.masked && &box == &plan.box[0] ? clocks * kMaskedFactor : clocks;
}

// Clocks of the products of all threads of a block.
double product_clocks(const DepthwiseTilePlan& plan) {
  const double length = depthwise_run_length(plan.run);
  const double taps = plan.taps[1];
  const double overhead = plan.taps[1] == 3 ? kKnownProductsOverhead : kProductsOverhead;
  const double step = plan.run == DepthwiseRun::kStep2 ? 2 : 1;
  const double rows =
      plan.run == DepthwiseRun::kSpread ? length / 2 + 3 - plan.skipped_rows : (length - 1) * step + taps;
  const double places = static_cast<double>(plan.tile[0]) * plan.tile[2];
  const double runs = static_cast<double>(plan.tile[1]) / length;
  if (plan.op == Operator::kWeightGrad) {
    const int64_t threads = int64_t{plan.sharing} * plan.tile_channels * plan.pairs();
    const auto each = static_cast<double>(ceil_div(static_cast<int64_t>(places), plan.sharing));
    return static_cast<double>(round_up(threads, kDepthwiseTileThreads)) * each *
           (runs * (rows + length + length * taps + overhead) + kProductsOverhead);
  }
  double pairs = plan.pairs();
  if (plan.op == Operator::kForward) {
    pairs = static_cast<double>(plan.taps[0]) / plan.stride[0] *
            static_cast<double>(ceil_div(plan.taps[2], plan.stride[2]));
  }
  const double products = plan.run == DepthwiseRun::kSpread ? length * taps / 2 : length * taps;
  const auto threads = static_cast<int64_t>(plan.tile_channels * places * runs);
  return static_cast<double>(round_up(threads, kDepthwiseTileThreads)) *
         (pairs * (rows + products + overhead) + 6 * length + kRunClocks);
}

double bias_clocks(const DepthwiseTilePlan& plan) {
  if (!plan.has_bias()) return 0;
  double outputs = plan.tile_channels;
  for (int i = 0; i < 3; ++i) outputs *= static_cast<double>(plan.tile[i]) * plan.stride[i];
  return outputs * kBiasClocks;
}

class Search {
 public:
  Search(const DepthwiseTilePlan& base, int64_t bytes) : base_(base), bytes_(bytes) {}

  // The tile that the model finds the fastest.
  std::optional<DepthwiseTilePlan> best() {
    int32_t most_channels = 1;
    while (most_channels < base_.channels && most_channels < 32) most_channels *= 2;
    // Both residues of an output, where these have taps of their own.
    const auto unit = [&](int axis) { return base_.op == Operator::kForward ? int64_t{base_.stride[axis]} : 1; };
    const std::vector<int64_t> depths = tile_extents(base_.size[0], unit(0), unit(0));
    const int64_t run = depthwise_run_length(base_.run);
    const std::vector<int64_t> heights = tile_extents(base_.size[1], run, run);
    const std::vector<int64_t> widths = tile_extents(base_.size[2], unit(2), 4);
    for (int32_t channels = 1; channels <= most_channels; channels *= 2) {
      for (const int64_t depth : depths) {
        for (const int64_t height : heights) {
          for (const int64_t width : widths) consider(channels, {depth, height, width});
        }
      }
    }
    return best_;
  }

 private:
  void consider(int32_t channels, const Int3& tile) {
    DepthwiseTilePlan plan = base_;
    plan.tile_channels = channels;
    while ((1 << plan.channel_shift) < channels) ++plan.channel_shift;
    plan.channel_tiles = narrow(ceil_div(plan.channels, channels));
    for (int i = 0; i < 3; ++i) {
      plan.tile[i] = narrow(tile[i]);
      plan.tiles[i] = narrow(ceil_div(plan.size[i], tile[i]));
      set_span(plan.box[0], i, source_span(plan, i, tile[i]));
      set_span(plan.box[1], i, {0, tile[i], tile[i]});
      plan.by_tile[i] = make_divisor(i == 1 ? tile[i] / depthwise_run_length(plan.run) : tile[i]);
    }
    DepthwiseBox& source = plan.box[0];
    // Neighbours along the width then read neighbours, whatever the stride.
    source.split_columns = plan.op != Operator::kForward && plan.stride[2] == 2 ? 1 : 0;
    int64_t floats = 0;
    for (DepthwiseBox& box : plan.box) {
      if (&box != &source && plan.op != Operator::kWeightGrad) break;
      box.quads = box.quads && (!box.by_channels || channels >= kAccessQuad);
      box.columns = narrow(box.row_quads() ? round_up(box.extent[2] + kAccessQuad - 1, kAccessQuad)
                                           : round_up(box.extent[2], 1 + box.split_columns));
      box.odd_columns = box.columns / 2;
      box.lanes = row_lanes(plan, box, bytes_);
      set_pitches(box, channels);
      floats += box_floats(box, channels);
    }
    if (plan.op == Operator::kWeightGrad) {
      const int64_t sums = int64_t{channels} * plan.pairs();
      plan.sharing = narrow(std::clamp<int64_t>(kDepthwiseTileThreads / sums, 1, tile[0] * tile[2]));
      plan.input_offset = narrow(box_floats(source, channels));
      plan.sums_offset = narrow(floats);
      floats += round_up(sums * plan.sharing * plan.taps[1], 4);
      plan.bias_offset = narrow(floats);
      if (plan.has_bias()) floats += kBiasFloats;
    } else {
      floats += int64_t{channels} * plan.weight_pitch();
    }
    plan.shared_bytes = floats * static_cast<int64_t>(sizeof(float));
    if (plan.shared_bytes > kDepthwiseTileBytes) return;
    const int64_t tiles = plan.positions() * plan.channel_tiles;
    const int64_t wanted = std::clamp<int64_t>(kWeightGradBlocks / plan.channel_tiles, 1, plan.positions());
    const int64_t least = ceil_div(kLeastSplitPositions, tile[0] * tile[1] * tile[2]);
    plan.split_tiles =
        narrow(std::clamp(ceil_div(plan.positions(), wanted), std::min(least, plan.positions()), plan.positions()));
    plan.splits = narrow(ceil_div(plan.positions(), plan.split_tiles));
    if (plan.blocks() > INT_MAX || plan.positions() > INT_MAX) return;
    double clocks = product_clocks(plan) + kBlockClocks * kDepthwiseTileThreads + stage_clocks(plan, source, bytes_);
    if (plan.op == Operator::kWeightGrad) clocks += stage_clocks(plan, plan.box[1], bytes_) + bias_clocks(plan);
    if (plan.op != Operator::kWeightGrad) clocks += kWeightClocks * plan.weight_pitch() * channels;
    const double turns = static_cast<double>(tiles) * std::max(1.0, static_cast<double>(kFewBlocks) / plan.blocks());
    plan.clocks = turns * clocks / kThreadsAtATime;
    if (!best_ || plan.clocks < best_->clocks) best_ = plan;
  }

  const DepthwiseTilePlan& base_;
  int64_t bytes_;
  std::optional<DepthwiseTilePlan> best_;
};

}  // namespace

bool has_long_kernel(const Problem& problem) {
  constexpr int64_t kMostOfForward = 4;
  return std::any_of(problem.kernel_size.begin(), problem.kernel_size.end(),
                     [](int64_t taps) { return taps > kMostOfForward; });
}

std::optional<DepthwiseTilePlan> plan_depthwise_tiles(Operator op, const Problem& problem, DataType dtype,
                                                      const Operands& operands, bool sums_bias) {
  if (op == Operator::kBiasGrad || !is_taken(problem, dtype)) return std::nullopt;
  const int64_t bytes = element_size(dtype);
  DepthwiseTilePlan base = base_plan(op, problem, operands, bytes);
  base.sums_bias = sums_bias;
  for (std::size_t i = 0; sums_bias && i < 3; ++i) {
    const std::optional<int64_t> tap = first_bias_tap(problem, i);
    if (!tap) return std::nullopt;
    base.bias_first[i] = narrow(*tap);
  }
  return Search(base, bytes).best();
}

std::string to_string(DepthwiseRun run) {
  switch (run) {
    case DepthwiseRun::kStep1:
      return "step1";
    case DepthwiseRun::kStep2:
      return "step2";
    case DepthwiseRun::kSpread:
      return "spread";
  }
  return "unknown";
}

std::string to_string(const DepthwiseTilePlan& plan) {
  std::ostringstream out;
  const auto triple = [&](const std::array<int32_t, 3>& of) { out << of[0] << 'x' << of[1] << 'x' << of[2]; };
  out << "tiles tile=" << plan.tile_channels << 'x';
  triple(plan.tile);
  out << " run=" << to_string(plan.run) << " box=";
  triple(plan.box[0].extent);
  out << " load=" << (plan.box[0].by_channels ? "channels" : "rows") << (plan.box[0].quads ? "_quads" : "");
  if (plan.op == Operator::kWeightGrad) {
    out << ',' << (plan.box[1].by_channels ? "channels" : "rows") << (plan.box[1].quads ? "_quads" : "")
        << " sharing=" << plan.sharing << " splits=" << plan.splits << (plan.has_bias() ? " with_bias" : "");
  }
  out << " threads=" << (plan.by_channels ? "channels" : "width") << " shared=" << plan.shared_bytes
      << " blocks=" << plan.blocks() << (plan.masked ? " masked" : "");
  return out.str();
}

}  // namespace convt3d
