#include "engines/mma/traits.h"

#include <algorithm>
#include <string>

#include "core/integer.h"
#include "core/trait_values.h"

namespace convt3d::mma {
namespace {

constexpr const char* kSplitNames[] = {"split_d", "split_h", "split_w"};
constexpr const char* kPartNames[] = {"parts_d", "parts_h", "parts_w"};

const char* order_name(BoxOrder order) {
  switch (order) {
    case BoxOrder::kHeight:
      return "height";
    case BoxOrder::kDepth:
      return "depth";
    case BoxOrder::kImages:
      return "images";
  }
  return "unknown";
}

void add_correlation(const CorrelationPlan& plan, Traits& traits) {
  const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
  const int64_t positions = plan.tile.images * int64_t{plan.box[0]} * plan.box[1] * plan.box[2];
  traits.push_back({"tile", std::to_string(extent.m()) + "x" + std::to_string(extent.n())});
  traits.push_back({"warps", std::to_string(extent.warps_m) + "x" + std::to_string(extent.warps_n)});
  traits.push_back({"load", to_string(plan.way)});
  traits.push_back({"copied", to_name(plan.portions, plan.boxes)});
  traits.push_back({"store", !plan.joins_width      ? plan.store == StoreWay::kChannels ? "channels" : "rows"
                             : plan.stages_matrices ? "matrices"
                                                    : "widths"});
  traits.push_back({"staged_rows", yes_no(plan.staging_bytes > 0)});
  traits.push_back({"joined", one_or_many(plan.joined)});
  traits.push_back({"groups", one_or_many(plan.groups)});
  traits.push_back({"order", order_name(plan.order)});
  traits.push_back({"images", one_or_many(plan.tile.images)});
  traits.push_back({"boxes", one_or_many(plan.boxes[0] * plan.boxes[1] * plan.boxes[2] * plan.boxes[3])});
  traits.push_back({"m_tail", yes_no(positions < extent.m())});
  traits.push_back({"n_blocks", one_or_many(plan.n_blocks)});
  traits.push_back({"n_tail", yes_no(plan.n_channels % extent.n() != 0)});
  traits.push_back({"chunks", one_or_many(plan.chunks)});
  traits.push_back({"chunk_steps", one_or_many(plan.chunk_steps)});
  traits.push_back({"buffers", std::to_string(plan.buffers)});
  traits.push_back({"ahead", std::to_string(plan.ahead)});
  traits.push_back({"weights", plan.weights_stay ? "stay" : "come"});
  traits.push_back({"k_splits", one_two_many(plan.k_splits)});
  traits.push_back({"walkers", plan.walkers > 0 ? one_or_many(plan.walkers) : "differ"});
  traits.push_back({"walked", one_or_many(ceil_div(plan.box_count(), plan.least_walkers()))});
  traits.push_back({"stages", one_or_many(plan.stages())});
  traits.push_back({"phases", plan.phases() == 1                   ? "1"
                              : plan.block_phases == 1             ? "apart"
                              : plan.block_phases == plan.phases() ? "together"
                                                                   : "some"});
  for (int i = 0; i < 3; ++i) traits.push_back({kSplitNames[i], yes_no(plan.tile.axis[i].split)});
}

}  // namespace

Traits forward_traits(const Problem& problem, const CorrelationPlan& plan, const ForwardArguments& arguments) {
  Traits traits = engine_traits("mma", "forward", type_name(arguments.dtype, arguments.mode));
  traits.push_back({"bias", yes_no(arguments.bias)});
  traits.push_back({"relu", yes_no(arguments.relu)});
  add_correlation(plan, traits);
  add_parameters(problem, traits);
  return traits;
}

Traits input_grad_traits(const Problem& problem, const CorrelationPlan& plan, const ForwardArguments& arguments) {
  Traits traits = engine_traits("mma", "input_grad", type_name(arguments.dtype, arguments.mode));
  traits.push_back({"masked", yes_no(plan.masked)});
  add_correlation(plan, traits);
  add_parameters(problem, traits);
  return traits;
}

Traits weight_grad_traits(const Problem& problem, const WeightGradPlan& plan, const ForwardArguments& arguments) {
  Traits traits = engine_traits("mma", "weight_grad", type_name(arguments.dtype, arguments.mode));
  traits.push_back({"masked", yes_no(plan.layouts.masked)});
  traits.push_back({"grad_output", to_string(plan.layouts.grad)});
  traits.push_back({"input", to_string(plan.layouts.input)});
  traits.push_back({"copied", copied_name(plan)});
  traits.push_back({"portions", to_name(plan.portions, plan.boxes)});
  traits.push_back({"columns", std::to_string(plan.columns)});
  traits.push_back({"warps_groups", one_or_many(plan.warps_groups)});
  traits.push_back({"warps_m", one_or_many(plan.warps_m)});
  traits.push_back({"warps_n", one_or_many(plan.warps_n)});
  traits.push_back({"warps_k", one_or_many(plan.warps_k)});
  traits.push_back({"row_chunks", one_or_many(plan.row_chunks)});
  traits.push_back({"n_chunks", one_or_many(plan.n_chunks)});
  traits.push_back({"row_tail", yes_no(plan.row_channels % plan.row_chunk != 0)});
  traits.push_back({"n_tail", yes_no(plan.n_channels % plan.n_chunk != 0)});
  traits.push_back({"group_blocks", one_or_many(plan.group_blocks)});
  traits.push_back({"images", one_or_many(plan.images)});
  traits.push_back({"stages", one_or_many(plan.stages)});
  traits.push_back({"steps", one_or_many(plan.steps)});
  traits.push_back({"splits", one_or_many(plan.splits)});
  traits.push_back({"split_boxes", one_or_many(plan.split_boxes)});
  traits.push_back({"segments", yes_no(plan.segment_boxes < plan.split_boxes)});
  for (int i = 0; i < 3; ++i) traits.push_back({kPartNames[i], one_or_many(plan.taps[i].parts)});
  add_parameters(problem, traits);
  return traits;
}

Traits backward_traits(const Problem& problem, const BackwardPlan& plan, const ForwardArguments& arguments) {
  const WeightGradPlan& grad = plan.grad;
  const ShapeExtent extent = shape_extent(plan.input.shape, grad.terms);
  const int64_t positions = grad.images * int64_t{grad.box[0]} * grad.box[1] * grad.box[2];
  Traits traits = engine_traits("mma", "backward", type_name(arguments.dtype, arguments.mode));
  traits.push_back({"bias", yes_no(plan.grad.has_bias())});
  traits.push_back({"masked", yes_no(grad.layouts.masked)});
  traits.push_back({"grad_output", to_string(grad.layouts.grad)});
  traits.push_back({"input", to_string(grad.layouts.input)});
  traits.push_back({"tile", std::to_string(extent.m()) + "x" + std::to_string(extent.n())});
  traits.push_back({"warpgroup", yes_no(plan.warpgroup)});
  traits.push_back({"store", plan.input.store == StoreWay::kChannels ? "channels" : "rows"});
  traits.push_back({"warps_m", one_or_many(grad.warps_m)});
  traits.push_back({"warps_n", one_or_many(grad.warps_n)});
  traits.push_back({"warps_k", one_or_many(grad.warps_k)});
  traits.push_back({"groups", one_or_many(grad.groups)});
  traits.push_back({"images", one_or_many(grad.images)});
  traits.push_back({"m_tail", yes_no(positions < extent.m())});
  traits.push_back({"n_tail", yes_no(grad.n_channels % extent.n() != 0)});
  traits.push_back({"stages", one_or_many(grad.stages - 1)});
  traits.push_back({"channel_steps", one_or_many(plan.channel_steps)});
  traits.push_back({"splits", one_or_many(grad.splits)});
  traits.push_back({"split_boxes", one_or_many(grad.split_boxes)});
  add_parameters(problem, traits);
  return traits;
}

}  // namespace convt3d::mma
