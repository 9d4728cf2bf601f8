#include "engines/depthwise/patch_plan.h"

#include <algorithm>
#include <climits>
#include <sstream>

#include "core/access.h"
#include "core/bias_taps.h"
#include "core/integer.h"

namespace convt3d {
namespace {

// Constants, not a device's own, so that the order of summation and every bit of a result is the same on all.
constexpr int64_t kWeightGradBlocks = 1024;
constexpr int64_t kPartialBytes = 10 << 20;  // of the weight gradient: more would show beside what is read
constexpr int64_t kSegmentRows = 64;         // of the input, which a float32 sum takes up before it joins the others
constexpr int64_t kWarp = 32;
constexpr int64_t kSectorBytes = 32;
constexpr int64_t kMostItems = 1 << 30;  // so that their numbers, rounded up to whole blocks, have 31 bits
constexpr int64_t kWantedBlocks = 2048;  // a few waves on the largest devices
constexpr int64_t kMaxSteps = 8;         // past this, staging the weights no longer shows

// Instructions, counted in the machine code: of a load with its address and its predicate, of a row, of an item, of a
// step of a walk.
constexpr double kLoadClocks = 3.5;
constexpr double kRowClocks = 4;
constexpr double kItemClocks = 150;
constexpr double kStepClocks = 30;
constexpr double kWeightClocks = 25;
constexpr int kThreadsAtATime = 128;  // instructions of a multiprocessor in a clock

int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }

std::optional<DepthwisePatchTaps> taps_of(const Problem& problem) {
  if (problem.kernel_size[1] != problem.kernel_size[2] || problem.stride[1] != problem.stride[2]) return std::nullopt;
  for (const DepthwisePatchTaps taps : {DepthwisePatchTaps::kKernel3Stride1, DepthwisePatchTaps::kKernel3Stride2,
                                        DepthwisePatchTaps::kKernel5Stride2, DepthwisePatchTaps::kKernel7Stride2}) {
    bool same = false;
    with_patch_taps(
        taps, [&](auto known) { same = problem.kernel_size[1] == known.kTaps && problem.stride[1] == known.kStride; });
    if (same) return taps;
  }
  return std::nullopt;
}

bool is_taken(Operator op, const Problem& problem, DataType dtype, const Operands& operands) {
  if (op == Operator::kForward || op == Operator::kBiasGrad) return false;
  if (is_backward(op) &&
      (problem.kernel_size[0] != kDepthwiseTogetherTaps || problem.kernel_size[1] != kDepthwiseTogetherTaps)) {
    return false;
  }
  if (dtype == DataType::kFloat64 || problem.batch == 0 || operands.mask.present) return false;
  if (problem.in_channels_per_group() != 1 || problem.out_channels_per_group() != 1) return false;
  if (problem.kernel_size[0] > kDepthwisePatchDepthTaps || problem.stride[0] > 2) return false;
  for (int i = 0; i < 3; ++i) {
    if (problem.dilation[i] != 1 && problem.kernel_size[i] > 1) return false;
  }
  return true;
}

// Of a thread: its channels, and positions along the width.
struct Patch {
  int32_t channels;
  int32_t width;
};
Patch patch_of(Operator op, DepthwisePatchAccess access, int element_bytes, int taps, int stride) {
  if (is_backward(op)) {
    return {depthwise_together_channels(access, element_bytes),
            depthwise_together_width(access, element_bytes, stride)};
  }
  const bool sums = op == Operator::kWeightGrad;
  return {depthwise_patch_channels(access, element_bytes, taps, sums),
          depthwise_patch_width(access, element_bytes, taps, stride, sums)};
}

// The widest that the tensors allow; none where channels lie closer than the width and fit no vector.
std::optional<DepthwisePatchAccess> access_of(Operator op, const Problem& problem, int64_t bytes, int taps, int stride,
                                              const Operands& operands) {
  using Access = DepthwisePatchAccess;
  const bool sums = op != Operator::kInputGrad;
  const OperandTraits& source = operands.first;
  const int size = static_cast<int>(bytes);
  const int64_t channels = patch_of(op, Access::kChannels, size, taps, stride).channels;
  if (source.stride[1] == 1 && problem.groups > 1) {
    const auto has_vectors = [&](const OperandTraits& tensor) {
      return has_pieces(tensor, bytes, problem.groups, channels);
    };
    if (!has_vectors(source) || (sums && !has_vectors(operands.second))) return std::nullopt;
    return Access::kChannels;
  }
  if (source.stride[4] != 1) return std::nullopt;
  const int64_t width = patch_of(op, Access::kRows, size, taps, stride).width;
  const int64_t vector = depthwise_patch_vector(size, static_cast<int>(width), stride);
  const bool rows = problem.padding[2] == (taps - 1) / 2 &&
                    has_row_pieces(source, bytes, problem.output_size(2), vector) &&
                    (!sums || has_row_pieces(operands.second, bytes, problem.input_size[2], width));
  return rows ? Access::kRows : Access::kElements;
}

// Neighbouring threads along the channels: as many as waste the fewest, if they fill a sector.
int32_t channel_lanes(int64_t owners, int64_t most, int64_t owner_bytes) {
  const int64_t least = std::min(kSectorBytes / owner_bytes, most);
  int32_t best = 1;
  while (best < std::min(owners, least)) best *= 2;
  if (owners <= least) return best;
  int64_t best_waste = INT64_MAX;
  for (int64_t lanes = most; lanes >= least; lanes /= 2) {
    const int64_t waste = ceil_div(owners, lanes) * lanes - owners;
    if (waste >= best_waste) continue;
    best = narrow(lanes);
    best_waste = waste;
  }
  return best;
}

// Instructions of a row: its loads and conversions.
double row_clocks(DepthwisePatchAccess access, double columns, double channels) {
  const double loads = access == DepthwisePatchAccess::kRows ? columns / 3 : columns;
  return kRowClocks + loads * kLoadClocks + columns * channels;
}

// Of shared memory, where a block stages its channels' weights.
int64_t weight_floats(const DepthwisePatchPlan& plan, int taps) {
  const bool channels = plan.access == DepthwisePatchAccess::kChannels;
  const int64_t plane = channels ? int64_t{taps} * taps * plan.weight_pitch() : int64_t{taps} * (taps <= 4 ? 4 : 8);
  return plan.depth_taps * plane;
}

void plan_input_grad(DepthwisePatchPlan& plan, int taps, int stride) {
  const int64_t height = depthwise_patch_height(plan.access);
  plan.units = {plan.size[0], narrow(ceil_div(plan.size[1], height)), narrow(ceil_div(plan.size[2], plan.patch_width))};
  const int64_t items = int64_t{plan.units[0]} * plan.units[1] * plan.units[2];
  plan.items = narrow(std::min(items, kMostItems));
  // Where items are few, a block has no more warps than have all of them at once.
  plan.threads = kDepthwisePatchThreads;
  while (plan.threads > kWarp && items * plan.lanes <= plan.threads / 2) plan.threads /= 2;
  plan.slots = plan.threads / plan.lanes;
  plan.by_taps = make_divisor(int64_t{plan.depth_taps} * taps * taps);
  const int64_t rounds = ceil_div(items, plan.slots);
  const int64_t blocks = rounds * plan.channel_tiles * plan.batch;
  plan.steps = narrow(std::clamp<int64_t>(blocks / kWantedBlocks, 1, std::min(rounds, kMaxSteps)));
  plan.item_tiles = narrow(ceil_div(rounds, plan.steps));
  const bool channels = plan.access == DepthwisePatchAccess::kChannels;
  plan.shared_bytes = weight_floats(plan, taps) * static_cast<int64_t>(sizeof(float));

  const double positions = static_cast<double>(height) * plan.patch_width;
  const double rows = static_cast<double>((height - 1) * stride + taps);
  const double columns = (plan.patch_width - 1) * stride + taps;
  const double products = positions * plan.patch_channels * taps * taps;
  const double tap_rows = taps * (channels ? taps : taps <= 4 ? 1 : 2);
  const double item = plan.depth_taps * (rows * row_clocks(plan.access, columns, plan.patch_channels) + products +
                                         tap_rows + positions * plan.patch_channels) +
                      kItemClocks;
  const double staged = static_cast<double>(plan.depth_taps * taps * taps * plan.tile_channels()) * kWeightClocks;
  plan.clocks = static_cast<double>(plan.blocks()) * (static_cast<double>(plan.threads) * plan.steps * item + staged) /
                kThreadsAtATime;
}

// Taps of the depth with which all outputs are reached once, with the taps of height and width that the kernel sums
// rows with. None where some are not.
uint32_t bias_taps_of(const Problem& problem, int64_t middle_tap) {
  const std::optional<int64_t> first = first_bias_tap(problem, 0);
  if (!first || !neighbours_reach_all(problem, 1, middle_tap) || !neighbours_reach_all(problem, 2, middle_tap))
    return 0;
  return ((uint32_t{1} << problem.stride[0]) - 1) << *first;
}

// The weight's gradient, and of a backward the input's.
void plan_walks(DepthwisePatchPlan& plan, int taps, int stride) {
  const bool together = is_backward(plan.op);
  const int32_t single = plan.size[2] % plan.patch_width;
  plan.whole_patches = plan.size[2] / plan.patch_width;
  const int64_t segments = ceil_div(plan.size[1], kSegmentRows);
  plan.segment = narrow(ceil_div(plan.size[1], segments));
  plan.units = {plan.size[0], narrow(ceil_div(plan.size[1], plan.segment)), plan.whole_patches + single};
  const int64_t items = plan.batch * plan.units[0] * plan.units[1] * plan.units[2];
  plan.items = narrow(std::min(items, kMostItems));
  plan.warp_planes = together ? plan.depth_taps : 1;
  if (together) {
    plan.by_taps = make_divisor(int64_t{plan.depth_taps} * taps * taps);
    plan.sums_offset = narrow(round_up(weight_floats(plan, taps), 4));
  }
  const int64_t sums = int64_t{plan.warp_planes} * taps * taps * plan.patch_channels;  // of a thread
  const int64_t own = sums + (plan.has_bias() ? plan.patch_channels : 0);
  const int64_t warp_bytes = own * kWarp * static_cast<int64_t>(sizeof(float));
  const int64_t weight_bytes = plan.sums_offset * static_cast<int64_t>(sizeof(float));
  const int64_t most_threads = together ? kDepthwiseTogetherThreads : depthwise_patch_sum_threads(taps);
  const int64_t warps = std::min(most_threads / kWarp, (kDepthwisePatchBytes - weight_bytes) / warp_bytes);
  const int64_t shares = plan.depth_taps / plan.warp_planes;  // warps that differ in their taps of the depth
  plan.parts = narrow(std::max<int64_t>(1, std::min(warps / shares, ceil_div(items * plan.lanes, kWarp))));
  plan.threads = narrow(plan.warps() * kWarp);
  plan.slots = narrow(plan.parts * kWarp / plan.lanes);
  const int64_t elements = int64_t{plan.depth_taps} * taps * taps * plan.tile_channels() * plan.channel_tiles;
  const int64_t most = std::min(kWeightGradBlocks / plan.channel_tiles,
                                kPartialBytes / (elements * static_cast<int64_t>(sizeof(float))));
  const int64_t rounds = ceil_div(items, plan.slots);
  plan.steps = narrow(ceil_div(rounds, std::clamp<int64_t>(most, 1, rounds)));
  plan.item_tiles = narrow(ceil_div(rounds, plan.steps));
  plan.shared_bytes = weight_bytes + plan.warps() * warp_bytes;

  const double columns = (plan.patch_width - 1) * stride + taps;
  const double positions = static_cast<double>(plan.patch_width) * plan.patch_channels;
  const double summed = plan.has_bias() ? positions * stride * stride : 0;
  const double products = positions * taps * taps * (together ? 2 : 1);
  const double plane = stride * row_clocks(plan.access, columns, plan.patch_channels) + products + summed;
  const double step = plan.warp_planes * plane + 2 * positions + kStepClocks;
  const double item = (plan.segment + taps / stride) * step + 3 * static_cast<double>(sums) + kItemClocks;
  plan.clocks = static_cast<double>(plan.blocks()) * plan.threads * plan.steps * item / kThreadsAtATime;
}

}  // namespace

int64_t DepthwisePatchPlan::partial_elements() const {
  if (!walks()) return 0;
  int64_t squared = 0;
  with_patch_taps(taps, [&](auto known) { squared = known.kTaps * known.kTaps; });
  return int64_t{item_tiles} * channel_tiles * tile_channels() * depth_taps * squared;
}

std::optional<DepthwisePatchPlan> plan_depthwise_patches(Operator op, const Problem& problem, DataType dtype,
                                                         const Operands& operands, bool sums_bias) {
  if (!is_taken(op, problem, dtype, operands)) return std::nullopt;
  const auto known = taps_of(problem);
  if (!known) return std::nullopt;
  const int64_t bytes = element_size(dtype);
  const int taps = static_cast<int>(problem.kernel_size[1]);
  const int stride = static_cast<int>(problem.stride[1]);
  const auto access = access_of(op, problem, bytes, taps, stride, operands);
  if (!access) return std::nullopt;

  DepthwisePatchPlan plan{};
  plan.op = is_backward(op) ? Operator::kBackward : op;
  plan.taps = *known;
  plan.access = *access;
  plan.batch = problem.batch;
  plan.channels = narrow(problem.groups);
  plan.depth_taps = narrow(problem.kernel_size[0]);
  plan.depth_stride = narrow(problem.stride[0]);
  for (int i = 0; i < 3; ++i) {
    plan.padding[i] = narrow(problem.padding[i]);
    plan.size[i] = narrow(problem.input_size[i]);
    plan.source_size[i] = narrow(problem.output_size(i));
  }
  const bool sums = plan.walks();
  const Patch patch = patch_of(op, *access, static_cast<int>(bytes), taps, stride);
  plan.patch_channels = patch.channels;
  plan.patch_width = patch.width;
  plan.lanes = 1;
  if (*access == DepthwisePatchAccess::kChannels) {
    int64_t most = kWarp;
    const int64_t lane_bytes = int64_t{plan.depth_taps} * taps * taps * plan.patch_channels * 4;
    while (!sums && (most + 1) * lane_bytes > kDepthwisePatchBytes) most /= 2;
    plan.lanes = channel_lanes(ceil_div(plan.channels, plan.patch_channels), most, plan.patch_channels * bytes);
  }
  while ((1 << plan.lane_shift) < plan.lanes) ++plan.lane_shift;
  plan.channel_tiles = narrow(ceil_div(plan.channels, plan.tile_channels()));
  if (sums) {
    if (sums_bias) plan.bias_taps = bias_taps_of(problem, (taps - 1) / 2);
    if (sums_bias && !plan.has_bias()) return std::nullopt;
    plan_walks(plan, taps, stride);
  } else {
    plan_input_grad(plan, taps, stride);
  }
  if (op != Operator::kWeightGrad) {
    const OperandTraits& result = operands.result;
    plan.result_vectors = *access == DepthwisePatchAccess::kChannels
                              ? plan.patch_channels > 1 && has_pieces(result, bytes, plan.channels, plan.patch_channels)
                              : has_row_pieces(result, bytes, plan.size[2], plan.patch_width);
  }
  for (int i = 0; i < 3; ++i) plan.by_units[i] = make_divisor(plan.units[i]);
  if (plan.items == kMostItems || plan.blocks() > INT_MAX) return std::nullopt;
  return plan;
}

std::string to_string(DepthwisePatchTaps taps) {
  switch (taps) {
    case DepthwisePatchTaps::kKernel3Stride1:
      return "kernel3_stride1";
    case DepthwisePatchTaps::kKernel3Stride2:
      return "kernel3_stride2";
    case DepthwisePatchTaps::kKernel5Stride2:
      return "kernel5_stride2";
    case DepthwisePatchTaps::kKernel7Stride2:
      return "kernel7_stride2";
  }
  return "unknown";
}

std::string to_string(DepthwisePatchAccess access) {
  switch (access) {
    case DepthwisePatchAccess::kRows:
      return "rows";
    case DepthwisePatchAccess::kElements:
      return "elements";
    case DepthwisePatchAccess::kChannels:
      return "channels";
  }
  return "unknown";
}

std::string to_string(const DepthwisePatchPlan& plan) {
  std::ostringstream out;
  out << "patches " << (plan.op == Operator::kBackward ? "together " : "") << to_string(plan.taps)
      << " load=" << to_string(plan.access) << " patch=" << plan.patch_channels << 'x'
      << (plan.walks() ? plan.segment : depthwise_patch_height(plan.access)) << 'x' << plan.patch_width
      << " lanes=" << plan.lanes << " items=" << plan.items << " steps=" << plan.steps;
  if (plan.walks()) {
    out << " parts=" << plan.parts << " splits=" << plan.item_tiles << (plan.has_bias() ? " with_bias" : "");
  }
  if (plan.op != Operator::kWeightGrad) {
    out << " store=" << (plan.result_vectors ? "vectors" : "elements");
  }
  out << " threads=" << plan.threads << " shared=" << plan.shared_bytes << " blocks=" << plan.blocks();
  return out.str();
}

}  // namespace convt3d
