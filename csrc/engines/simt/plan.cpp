#include "engines/simt/plan.h"

#include <algorithm>
#include <sstream>

#include "core/integer.h"

namespace convt3d {
namespace {

// Blocks that a weight gradient aims at: a few waves on the largest devices. A constant, not the device's own
// count, so that the order of summation, and with it every bit of the result, is the same on every device.
constexpr int64_t kTargetBlocks = 1024;
// Below this many positions a split costs more in its partial sums than it gains.
constexpr int64_t kMinSplitPositions = 512;
// For a bias gradient: how often a thread reads at least; threads side by side along channels; what makes a run long
// enough.
constexpr int64_t kLeastThreadUnits = 8;
constexpr int32_t kBiasGradLanes = 32;
constexpr int64_t kLeastRunPieces = 2;

// How many threads to put along so many pieces of channels: as many as leave the fewest threads without a piece. 64
// bytes are read at a time at least.
int32_t piece_lanes(int64_t pieces) {
  int32_t best = static_cast<int32_t>(std::min<int64_t>(pieces, 4));
  while ((best & (best - 1)) != 0) ++best;
  for (int32_t lanes = best; lanes <= kBiasGradLanes; lanes *= 2) {
    if (round_up(pieces, lanes) <= round_up(pieces, best)) best = lanes;
  }
  return best;
}

// Along channels that are read one by one: one thread each, where there are so many.
int32_t element_lanes(int64_t channels) {
  int32_t lanes = 1;
  while (lanes < kBiasGradLanes && lanes < channels) lanes *= 2;
  return lanes;
}

// Positions along the width are neighbours, and the mask's lie as those of grad_output do.
bool lie_in_runs(const OperandTraits& grad, const OperandTraits& mask, int64_t piece) {
  if (grad.stride[4] != 1) return false;
  if (!mask.present) return true;
  bool alike = mask.stride[4] == 1 && mask.address == grad.address;
  for (const std::size_t i : {0, 1, 2, 3}) alike = alike && (grad.stride[i] - mask.stride[i]) % piece == 0;
  return alike;
}

// The tile that covers C with the least padded work; of equals the larger N, which reads A less often.
TileShape choose_tile(int64_t m, int64_t n, bool is_double) {
  TileShape best = TileShape::kNarrow;
  int64_t best_cost = INT64_MAX;
  for (const TileShape shape : {TileShape::kNarrow, TileShape::kSlim, TileShape::kMedium, TileShape::kWide}) {
    const TileExtent tile = tile_extent(shape, is_double);
    const int64_t cost = ceil_div(m, tile.m) * tile.m * ceil_div(n, tile.n) * (tile.n + 8);
    if (cost <= best_cost) {
      best = shape;
      best_cost = cost;
    }
  }
  return best;
}

CorrelationPlan plan_correlation(const Problem& problem, DataType dtype, const Operands& operands,
                                 const std::array<AxisMap, 3>& axis, int64_t k_channels, int64_t n_channels) {
  const bool is_double = dtype == DataType::kFloat64;
  CorrelationPlan plan{};
  plan.axis = axis;
  plan.batch = problem.batch;
  plan.groups = problem.groups;
  plan.k_channels = static_cast<int32_t>(k_channels);
  plan.n_channels = static_cast<int32_t>(n_channels);
  plan.phases = 1;
  int64_t positions = problem.batch;
  for (const AxisMap& map : axis) {
    plan.phases *= map.phases;
    positions *= ceil_div(map.dst_size, map.dst_step);
    plan.has_empty_phase |= map.phases < map.dst_step;
  }
  plan.tile = choose_tile(positions, n_channels, is_double);
  const TileExtent tile = tile_extent(plan.tile, is_double);
  plan.tiles_m = ceil_div(positions, tile.m);
  plan.tiles_n = ceil_div(n_channels, tile.n);
  plan.k_padded = static_cast<int32_t>(round_up(k_channels, tile.k));
  plan.n_padded = static_cast<int32_t>(round_up(n_channels, tile.n));
  plan.packed_weight_elements = problem.groups * problem.taps() * plan.k_padded * plan.n_padded;
  const int64_t bytes = element_size(dtype);
  plan.masked = operands.mask.present;
  plan.source = channel_access(operands.first, operands.mask, bytes, k_channels);
  plan.destination_channels_contiguous = operands.result.stride[1] == 1;
  plan.destination_quads = has_quads(operands.result, bytes, n_channels);
  return plan;
}

template <typename Range>
void print_list(std::ostream& out, const Range& range) {
  out << '(' << range[0] << ", " << range[1] << ", " << range[2] << ')';
}

}  // namespace

CorrelationPlan plan_forward(const Problem& problem, DataType dtype, const Operands& operands) {
  return plan_correlation(problem, dtype, operands,
                          {forward_axis(problem, 0), forward_axis(problem, 1), forward_axis(problem, 2)},
                          problem.in_channels_per_group(), problem.out_channels_per_group());
}

CorrelationPlan plan_input_grad(const Problem& problem, DataType dtype, const Operands& operands) {
  return plan_correlation(problem, dtype, operands,
                          {input_grad_axis(problem, 0), input_grad_axis(problem, 1), input_grad_axis(problem, 2)},
                          problem.out_channels_per_group(), problem.in_channels_per_group());
}

WeightGradPlan plan_weight_grad(const Problem& problem, DataType dtype, const Operands& operands) {
  const bool is_double = dtype == DataType::kFloat64;
  WeightGradPlan plan{};
  plan.axis = {input_grad_axis(problem, 0), input_grad_axis(problem, 1), input_grad_axis(problem, 2)};
  plan.batch = problem.batch;
  plan.groups = problem.groups;
  plan.row_channels = static_cast<int32_t>(problem.out_channels_per_group());
  plan.row_padded = static_cast<int32_t>(round_up(plan.row_channels, 4));
  plan.n_channels = static_cast<int32_t>(problem.in_channels_per_group());
  plan.rows = problem.taps() * plan.row_padded;
  plan.tile = choose_tile(plan.rows, plan.n_channels, is_double);
  const TileExtent tile = tile_extent(plan.tile, is_double);
  plan.tiles_m = ceil_div(plan.rows, tile.m);
  plan.tiles_n = ceil_div(plan.n_channels, tile.n);
  plan.positions = problem.batch * problem.input_size[0] * problem.input_size[1] * problem.input_size[2];
  const int64_t tiles = plan.tiles_m * plan.tiles_n * plan.groups;
  const int64_t splits =
      std::min(ceil_div(kTargetBlocks, tiles), std::max<int64_t>(1, plan.positions / kMinSplitPositions));
  plan.split_positions = round_up(ceil_div(plan.positions, splits), tile.k);
  plan.splits = ceil_div(plan.positions, plan.split_positions);
  plan.partial_elements = plan.splits * plan.groups * plan.rows * plan.n_channels;
  const int64_t bytes = element_size(dtype);
  plan.masked = operands.mask.present;
  plan.grad_output = channel_access(operands.first, operands.mask, bytes, plan.row_channels);
  plan.input = channel_access(operands.second, {}, bytes, plan.n_channels);
  return plan;
}

BiasGradPlan plan_bias_grad(const Problem& problem, DataType dtype, const Operands& operands) {
  const Int3 size = problem.output_size();
  const int64_t bytes = element_size(dtype);
  const int64_t piece = kBiasGradBytes / bytes;
  const OperandTraits& grad = operands.first;
  const OperandTraits& mask = operands.mask;
  BiasGradPlan plan{};
  plan.masked = mask.present;
  plan.collapsed = collapses(grad, mask, size);
  plan.positions = problem.batch * size[0] * size[1] * size[2];
  plan.run = plan.collapsed ? size[0] * size[1] * size[2] : size[2];
  plan.units = plan.positions;
  const auto has_channels = [&](const OperandTraits& of) { return has_pieces(of, bytes, problem.out_channels, piece); };
  if (has_channels(grad) && (!mask.present || has_channels(mask))) {
    plan.read = BiasGradRead::kChannels;
    plan.channel_lanes = piece_lanes(problem.out_channels / piece);
    plan.channel_blocks = ceil_div(problem.out_channels / piece, plan.channel_lanes);
  } else if (lie_in_runs(grad, mask, piece) && plan.run >= kLeastRunPieces * piece) {
    plan.read = BiasGradRead::kRuns;
    plan.channel_lanes = 1;
    plan.channel_blocks = problem.out_channels;
    plan.run_pieces = ceil_div(plan.run + piece - 1, piece);
    plan.units = plan.positions / plan.run * plan.run_pieces;
  } else {
    plan.read = BiasGradRead::kElements;
    plan.channel_lanes = grad.stride[1] == 1 ? element_lanes(problem.out_channels) : 1;
    plan.channel_blocks = ceil_div(problem.out_channels, plan.channel_lanes);
  }
  const int64_t unit_lanes = kBiasGradThreads / plan.channel_lanes;
  const int64_t most = ceil_div(plan.units, unit_lanes * kLeastThreadUnits);
  plan.split_units =
      round_up(ceil_div(plan.units, std::clamp<int64_t>(kTargetBlocks / plan.channel_blocks, 1, most)), unit_lanes);
  plan.splits = ceil_div(plan.units, plan.split_units);
  plan.partial_elements = plan.splits * problem.out_channels;
  return plan;
}

std::string to_string(TileShape tile) {
  switch (tile) {
    case TileShape::kNarrow:
      return "narrow";
    case TileShape::kSlim:
      return "slim";
    case TileShape::kMedium:
      return "medium";
    case TileShape::kWide:
      return "wide";
  }
  return "unknown";
}

std::string to_string(const CorrelationPlan& plan) {
  std::ostringstream out;
  out << "correlation tile=" << to_string(plan.tile) << " phases=" << plan.phases << " tiles_m=" << plan.tiles_m
      << " tiles_n=" << plan.tiles_n << " groups=" << plan.groups << " k_channels=" << plan.k_channels
      << " n_channels=" << plan.n_channels << " taps=";
  print_list(out, std::array<int32_t, 3>{plan.axis[0].taps, plan.axis[1].taps, plan.axis[2].taps});
  out << (plan.has_empty_phase ? " fill" : "") << (plan.source.quads ? " load=quads" : " load=elements")
      << (plan.destination_quads                 ? " store=quads"
          : plan.destination_channels_contiguous ? " store=channels"
                                                 : " store=positions")
      << (plan.masked ? " masked" : "");
  return out.str();
}

std::string to_string(const WeightGradPlan& plan) {
  std::ostringstream out;
  out << "weight_grad tile=" << to_string(plan.tile) << " tiles_m=" << plan.tiles_m << " tiles_n=" << plan.tiles_n
      << " groups=" << plan.groups << " splits=" << plan.splits << " split_positions=" << plan.split_positions
      << " rows=" << plan.rows << " n_channels=" << plan.n_channels
      << " load=" << (plan.grad_output.quads ? "quads" : "elements") << ',' << (plan.input.quads ? "quads" : "elements")
      << (plan.masked ? " masked" : "");
  return out.str();
}

const char* to_string(BiasGradRead read) {
  constexpr const char* kNames[] = {"elements", "channels", "runs"};
  return kNames[static_cast<int>(read)];
}

std::string to_string(const BiasGradPlan& plan) {
  std::ostringstream out;
  out << "bias_grad load=" << to_string(plan.read) << " lanes=" << plan.channel_lanes
      << " channel_blocks=" << plan.channel_blocks << " splits=" << plan.splits << (plan.collapsed ? " collapsed" : "")
      << (plan.masked ? " masked" : "");
  return out.str();
}

}  // namespace convt3d
