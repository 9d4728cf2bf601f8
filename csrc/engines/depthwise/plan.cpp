#include "engines/depthwise/plan.h"

#include <algorithm>
#include <climits>
#include <sstream>

#include "core/access.h"
#include "core/integer.h"

namespace convt3d {
namespace {

constexpr int kMaxSteps = 8;             // past this, staging the weights no longer shows
constexpr int64_t kTargetBlocks = 4096;  // a few waves on the largest devices
constexpr int64_t kSharedBytes = 48 * 1024;
// A plain float32 sum of more products loses more than float32's rounding; the kernels for any taps sum in two levels.
constexpr int64_t kMaxPlainSum = 128;

DepthwiseAxis make_axis(const AxisMap& map) {
  DepthwiseAxis axis{};
  axis.stride = map.dst_step;
  axis.by_stride = make_divisor(map.dst_step);
  axis.src_size = map.src_size;
  axis.dst_size = map.dst_size;
  axis.taps = map.taps;
  axis.tap_step = map.tap_step;
  axis.offset_step = map.offset_step;
  for (int index = 0; index < map.phases; ++index) {
    const AxisPhase phase = axis_phase(map, index);
    axis.residue[phase.residue] = {phase.first_tap, phase.tap_count, phase.first_offset};
  }
  return axis;
}

int32_t floor_power_of_two(int64_t value) {
  int32_t power = 1;
  while (int64_t{2} * power <= value) power *= 2;
  return power;
}

// Lanes along the channels: as many as waste the fewest; four fill whole sectors.
int32_t channel_lanes(int64_t quads) {
  int32_t best = 1;
  int64_t best_waste = INT64_MAX;
  for (int32_t lanes = 32; lanes >= 4; lanes /= 2) {
    const int64_t waste = ceil_div(quads, lanes) * lanes - quads;
    if (waste < best_waste) {
      best = lanes;
      best_waste = waste;
    }
  }
  return quads < 4 ? floor_power_of_two(2 * quads - 1) : best;
}

template <typename Taps>
bool has_taps(const Problem& problem, int axis, Taps) {
  return problem.stride[axis] == Taps::kStride && problem.kernel_size[axis] == Taps::kTaps &&
         problem.dilation[axis] == 1 && (problem.padding[axis] - Taps::kPadding) % Taps::kStride == 0;
}

void choose_width(const Problem& problem, DepthwisePlan& plan) {
  const int64_t residues = problem.stride[0] * problem.stride[1] * problem.stride[2];
  if (problem.taps() * plan.in_channels > kMaxPlainSum * residues) return;
  for (const DepthwiseWidth width :
       {DepthwiseWidth::kStride1Kernel3, DepthwiseWidth::kStride2Kernel2, DepthwiseWidth::kStride2Kernel3,
        DepthwiseWidth::kStride2Kernel3Shifted, DepthwiseWidth::kStride2Kernel4}) {
    with_width_taps(width, [&](auto taps) {
      if (!has_taps(problem, 2, taps)) return;
      plan.width = width;
      if (taps.kStride == 2 && has_taps(problem, 0, taps) && has_taps(problem, 1, taps)) {
        plan.kind = plan.channels() ? DepthwiseKind::kChannelPairs : DepthwiseKind::kRowPairs;
      }
      for (const int i : {0, 1, 2}) {
        plan.shift[i] = static_cast<int32_t>((problem.padding[i] - taps.kPadding) / taps.kStride);
      }
    });
  }
}

// How threads read and write these operands, which may not be as regular as those that the kernel was planned for.
DepthwiseAccess access_of(const Problem& problem, const DepthwisePlan& plan, int64_t bytes, const Operands& operands) {
  const OperandTraits& input = operands.first;
  const OperandTraits& output = operands.result;
  if (plan.channels()) {
    return {plan.pure() && has_quads(input, bytes, problem.in_channels),
            has_quads(output, bytes, problem.out_channels)};
  }
  const int64_t vector = depthwise_vector(static_cast<int>(bytes));
  const int64_t positions = std::max<int64_t>(1, vector / problem.stride[2]);
  return {plan.shift[2] % positions == 0 && has_row_pieces(input, bytes, problem.input_size[2], positions),
          has_row_pieces(output, bytes, problem.output_size(2), vector)};
}

}  // namespace

std::optional<DepthwisePlan> plan_depthwise_kernel(const Problem& problem, int element_bytes, bool channels_last,
                                                   bool regular) {
  DepthwisePlan plan{};
  if (problem.in_channels_per_group() * problem.out_channels_per_group() > kDepthwiseMaxProducts) return std::nullopt;
  for (int i = 0; i < 3; ++i) {
    if (problem.stride[i] > kDepthwiseMaxStride) return std::nullopt;
    plan.axis[i] = make_axis(forward_axis(problem, i));
  }
  plan.batch = problem.batch;
  plan.groups = static_cast<int32_t>(problem.groups);
  plan.in_channels = static_cast<int32_t>(problem.in_channels_per_group());
  plan.out_channels = static_cast<int32_t>(problem.out_channels_per_group());
  // Vectors of very few channels are mostly empty; rows of them are only strided.
  plan.kind = channels_last && problem.out_channels >= 4 ? DepthwiseKind::kChannels : DepthwiseKind::kRows;

  const int vector = depthwise_vector(element_bytes);
  const bool whole = !plan.channels() || (plan.pure() && problem.out_channels % kDepthwiseChannels == 0);
  if (element_bytes < 8 && regular && whole) choose_width(problem, plan);
  const bool any = plan.width == DepthwiseWidth::kAny;

  const Int3 size = problem.output_size();
  const auto per_residue = [&](int axis) { return ceil_div(size[axis], problem.stride[axis]); };
  const int accumulator_bytes = element_bytes == 8 ? 8 : 4;
  int64_t units[3] = {size[0], size[1], 0};
  int64_t items = 0;
  if (plan.pairs()) {
    units[0] = per_residue(0);
    units[1] = per_residue(1);
  } else if (any && !plan.channels()) {
    units[1] = problem.stride[1] * ceil_div(per_residue(1), kDepthwiseRows);
  }
  if (plan.channels()) {
    units[2] = ceil_div(per_residue(2), depthwise_run(element_bytes, plan.pairs())) * (any ? problem.stride[2] : 1);
    const int64_t quads = ceil_div(problem.out_channels, kDepthwiseChannels);
    const auto shared_bytes = [&](int32_t lanes) {
      const int64_t pitch = depthwise_weight_pitch(plan.pairs() ? kDepthwisePairLanes : lanes, accumulator_bytes);
      return (plan.in_channels * problem.taps() + 1) * pitch * accumulator_bytes;
    };
    plan.lanes = channel_lanes(quads);
    while (plan.lanes > 1 && shared_bytes(plan.lanes) > kSharedBytes) plan.lanes /= 2;
    plan.shared_bytes = shared_bytes(plan.lanes);
    plan.lane_tiles = static_cast<int32_t>(ceil_div(quads, plan.lanes));
    plan.walk = 1;
    if (!any) {
      // Weights are staged 32 taps at a time: the longer that takes, the more outputs a block should have.
      const int64_t target = kTargetBlocks / ceil_div(problem.taps(), 32);
      const int64_t threads = plan.batch * plan.lane_tiles * plan.lanes * units[0] * units[1] * units[2];
      const int64_t most = std::min<int64_t>(kMaxSteps, units[2]);
      plan.walk = static_cast<int32_t>(std::clamp<int64_t>(threads / kDepthwiseThreads / target, 1, most));
      units[2] = ceil_div(units[2], plan.walk);
    }
    items = units[0] * units[1] * units[2];
  } else {
    units[2] = any ? size[2] : ceil_div(size[2], vector);
    items = units[0] * units[1];
    plan.walk = 1;
    plan.lanes = std::min<int32_t>(kDepthwiseThreads, floor_power_of_two(2 * units[2] - 1));
    plan.lane_tiles = static_cast<int32_t>(ceil_div(units[2], plan.lanes));
    const int64_t row = any ? problem.kernel_size[2] : problem.kernel_size[2] <= 2 ? 2 : 4;
    const int64_t weight = plan.in_channels * problem.kernel_size[0] * problem.kernel_size[1] * row;
    plan.shared_bytes = weight * accumulator_bytes + (any ? 0 : kDepthwiseRowStageBytes);
  }
  if (items > INT_MAX / 2 || plan.shared_bytes > kSharedBytes) return std::nullopt;
  for (int i = 0; i < 3; ++i) {
    plan.units[i] = static_cast<int32_t>(units[i]);
    plan.by_units[i] = make_divisor(units[i]);
  }
  plan.items = static_cast<int32_t>(items);
  plan.slots = kDepthwiseThreads / plan.lanes;
  plan.steps = 1;
  plan.item_tiles = static_cast<int32_t>(ceil_div(items, plan.slots));
  plan.steps = static_cast<int32_t>(std::clamp<int64_t>(plan.blocks() / kTargetBlocks, 1, kMaxSteps / plan.walk));
  plan.item_tiles = static_cast<int32_t>(ceil_div(items, int64_t{plan.slots} * plan.steps));
  // The kernels for any taps take what turns out not to be regular.
  if (!any && !plan_depthwise_kernel(problem, element_bytes, channels_last, false)) return std::nullopt;
  if (plan.blocks() > INT_MAX) return std::nullopt;
  return plan;
}

std::optional<DepthwiseForwardPlan> plan_depthwise_forward(const Problem& problem, DataType dtype,
                                                           const Operands& operands) {
  const int bytes = static_cast<int>(element_size(dtype));
  const bool channels_last = operands.result.stride[1] == 1;
  const std::optional<DepthwisePlan> of_regular = plan_depthwise_kernel(problem, bytes, channels_last, true);
  if (!of_regular) return std::nullopt;
  DepthwiseForwardPlan plan{*of_regular, {}};
  plan.access = access_of(problem, plan.kernel, bytes, operands);
  const bool regular =
      plan.kernel.channels() ? plan.access.vectors() : operands.first.stride[4] == 1 && operands.result.stride[4] == 1;
  if (!regular) plan.kernel = *plan_depthwise_kernel(problem, bytes, channels_last, false);
  DepthwisePlan& kernel = plan.kernel;
  if (kernel.kind != DepthwiseKind::kRowPairs || !plan.access.source_vectors) return plan;
  // Whole vectors of a pair leave from the registers.
  if (plan.access.destination_vectors) {
    kernel.shared_bytes -= kDepthwiseRowStageBytes;
  } else if (operands.result.stride[3] == kernel.axis[2].dst_size && kernel.lane_tiles == 1) {
    // A run begins and ends anywhere in a vector; there are no more of them than items.
    const int32_t vector = depthwise_vector(static_cast<int>(bytes));
    kernel.run_elements = static_cast<int32_t>(
        round_up(int64_t{kernel.slots} * (2 * kernel.axis[2].dst_size + 2 * vector), int64_t{vector}));
    const int32_t taps = kernel.axis[2].taps;
    kernel.shared_bytes =
        depthwise_row_weight_bytes(kernel.in_channels, taps, taps <= 2 ? 2 : 4) + 2 * kernel.run_elements * bytes;
    plan.access.destination_runs = true;
  }
  return plan;
}

std::string to_string(DepthwiseWidth width) {
  switch (width) {
    case DepthwiseWidth::kAny:
      return "any";
    case DepthwiseWidth::kStride1Kernel3:
      return "stride1_kernel3";
    case DepthwiseWidth::kStride2Kernel2:
      return "stride2_kernel2";
    case DepthwiseWidth::kStride2Kernel3:
      return "stride2_kernel3";
    case DepthwiseWidth::kStride2Kernel3Shifted:
      return "stride2_kernel3_shifted";
    case DepthwiseWidth::kStride2Kernel4:
      return "stride2_kernel4";
  }
  return "unknown";
}

std::string to_string(const DepthwiseForwardPlan& forward) {
  const DepthwisePlan& plan = forward.kernel;
  std::ostringstream out;
  out << (plan.channels() ? "channels" : "rows") << " width=" << to_string(plan.width)
      << (plan.pairs() ? " paired" : "") << " units=" << plan.units[0] << 'x' << plan.units[1] << 'x' << plan.units[2]
      << " lanes=" << plan.lanes << " walk=" << plan.walk << " steps=" << plan.steps << " shared=" << plan.shared_bytes
      << " blocks=" << plan.blocks() << " load=" << (forward.access.source_vectors ? "vectors" : "elements")
      << " store="
      << (forward.access.destination_vectors ? "vectors"
          : forward.access.destination_runs  ? "runs"
                                             : "elements");
  return out.str();
}

}  // namespace convt3d
