#include "norm/plan.h"

#include <algorithm>
#include <sstream>

#include "core/integer.h"
#include "epilogue/epilogue.h"

namespace convt3d::norm {
namespace {

// Enough blocks to fill most GPUs; a block that takes more steps has less to merge at its end. A pass that sums nothing
// has many more, so that the last ones to run are a small part.
constexpr int64_t kWantedBlocks = 512;
constexpr int64_t kMostSteps = 16;
constexpr int64_t kWantedMapBlocks = 4096;
constexpr int64_t kMostMapSteps = 4;

// For moments that are collected: 32 channels of 16 bytes are read side by side.
constexpr int64_t kMostCollectedLanes = 32;
constexpr int64_t kCollectingBlocks = 512;
constexpr int64_t kLeastSteps = 4;

int64_t statistics_bytes(const Shape& shape) { return shape.statistics() * 2 * static_cast<int64_t>(sizeof(double)); }

int64_t power_of_two_from(int64_t value) {
  int64_t power = 1;
  while (power < value) power *= 2;
  return power;
}

// Steps of one block, of `steps` that `units` of blocks have each.
int64_t steps_of_block(int64_t units, int64_t steps, int64_t wanted_blocks, int64_t most_steps) {
  return std::clamp<int64_t>(ceil_div(units * steps, wanted_blocks), 1, most_steps);
}

}  // namespace

bool has_position_stride(const Size& size, const Size& stride) {
  const int64_t step = position_stride(size, stride);
  int64_t positions = 1;
  for (const int axis : {4, 3, 2}) {
    if (size[axis] == 1) continue;
    if (stride[axis] != step * positions) return false;
    positions *= size[axis];
  }
  return true;
}

int64_t position_stride(const Size& size, const Size& stride) {
  for (const int axis : {4, 3, 2}) {
    if (size[axis] > 1) return stride[axis];
  }
  return 1;
}

Plan make_plan(const Size& size, const Size& stride, int64_t groups, DataType dtype) {
  const Shape shape = Shape::of(size, groups);
  Plan plan;
  plan.channels_last =
      stride[1] == 1 && shape.channels > 1 && (shape.positions == 1 || position_stride(size, stride) != 1);
  plan.slot = static_cast<int32_t>(16 / element_size(dtype));
  int64_t length = 0;  // that splits share
  int64_t step = 0;
  if (plan.channels_last) {
    const int64_t slots = ceil_div(shape.channels, plan.slot);
    plan.channel_blocks = ceil_div(slots, kThreads);
    plan.lanes = static_cast<int32_t>(ceil_div(slots, plan.channel_blocks));
    plan.others = kThreads / plan.lanes;
    plan.units = shape.batch * plan.channel_blocks;
    length = shape.positions;
    step = static_cast<int64_t>(plan.others) * kMostUnroll;
  } else {
    length = most_slots_of_row(shape.positions, plan.slot);
    plan.lanes = static_cast<int32_t>(std::min<int64_t>(kThreads, power_of_two_from(ceil_div(length, kMostUnroll))));
    plan.others = kThreads / plan.lanes;
    plan.units = ceil_div(shape.rows(), plan.others);
    step = static_cast<int64_t>(plan.lanes) * kMostUnroll;
  }
  const int64_t steps = ceil_div(length, step);
  plan.split_length = step * steps_of_block(plan.units, steps, kWantedBlocks, kMostSteps);
  plan.splits = ceil_div(length, plan.split_length);
  plan.map_split_length = step * steps_of_block(plan.units, steps, kWantedMapBlocks, kMostMapSteps);
  plan.map_splits = ceil_div(length, plan.map_split_length);
  plan.workspace_bytes =
      partial_bytes(shape, plan.splits, std::max(kMomentPlanes, kGradientPlanes)) + statistics_bytes(shape);
  return plan;
}

CollectPlan make_collect_plan(const Shape& shape, int64_t parts) {
  CollectPlan plan;
  plan.parts = parts;
  plan.lanes = static_cast<int32_t>(std::min(kMostCollectedLanes, power_of_two_from(shape.channels)));
  plan.others = kThreads / plan.lanes;
  plan.channel_blocks = ceil_div(shape.channels, plan.lanes);
  const int64_t steps = ceil_div(parts, plan.others);
  const int64_t units = shape.batch * plan.channel_blocks;
  plan.split_parts = plan.others * std::clamp<int64_t>(units * steps / kCollectingBlocks, kLeastSteps, kMostSteps);
  plan.splits = ceil_div(parts, plan.split_parts);
  plan.workspace_bytes = partial_bytes(shape, plan.splits, kMomentPlanes) + statistics_bytes(shape);
  return plan;
}

int64_t forward_workspace_bytes(const Shape& shape, const Plan& plan, int64_t parts) {
  const int64_t norms = shape.rows() * static_cast<int64_t>(sizeof(ChannelNorm));
  return norms + (parts == 0 ? plan.workspace_bytes : make_collect_plan(shape, parts).workspace_bytes);
}

int64_t partial_bytes(const Shape& shape, int64_t splits, int planes) {
  return planes * splits * shape.rows() * static_cast<int64_t>(sizeof(double));
}

std::string to_string(const Plan& plan) {
  std::ostringstream text;
  text << (plan.channels_last ? "channels" : "rows") << " slot=" << plan.slot << " lanes=" << plan.lanes << "x"
       << plan.others << " blocks=" << plan.blocks() << " splits=" << plan.splits
       << " split_length=" << plan.split_length << " workspace=" << plan.workspace_bytes;
  return text.str();
}

}  // namespace convt3d::norm
