#include "engines/depthwise/traits.h"

#include "core/trait_values.h"

namespace convt3d {

Traits depthwise_traits(const Problem& problem, const DepthwiseForwardPlan& forward,
                        const ForwardArguments& arguments) {
  const DepthwisePlan& plan = forward.kernel;
  const DepthwiseAccess& access = forward.access;
  const bool any = plan.width == DepthwiseWidth::kAny;
  Traits traits = engine_traits("depthwise", "forward", type_name(arguments.dtype, Float32Mode::kIeee));
  traits.push_back({"bias", yes_no(arguments.bias)});
  traits.push_back({"relu", yes_no(arguments.relu)});
  traits.push_back(
      {"kernel", std::string(plan.channels() ? "channels" : "rows") + (any                                   ? "_any"
                                                                       : !plan.pairs()                       ? ""
                                                                       : plan.channels() || access.vectors() ? "_pairs"
                                                                       : access.destination_runs ? "_runs"
                                                                                                 : "_paired")});
  traits.push_back({"width", to_string(plan.width)});
  traits.push_back({"source_vectors", yes_no(access.source_vectors)});
  traits.push_back({"destination_vectors", yes_no(access.destination_vectors)});
  traits.push_back({"in_channels", count_name(plan.in_channels, 4)});
  traits.push_back({"out_channels", count_name(plan.out_channels, 4)});
  traits.push_back({"lanes", plan.lanes == 1 ? "1" : plan.lanes < 32 ? "few" : "warp"});
  traits.push_back({"lane_tiles", one_or_many(plan.lane_tiles)});
  traits.push_back({"item_tiles", one_or_many(plan.item_tiles)});
  traits.push_back({"steps", one_or_many(plan.steps)});
  traits.push_back({"walk", one_or_many(plan.walk)});
  traits.push_back({"images", one_or_many(plan.batch)});
  for (int i = 0; i < 3; ++i) traits.push_back({kShiftNames[i], sign_name(plan.shift[i], plan.shift[i])});
  bool no_tap = false;
  for (const DepthwiseAxis& axis : plan.axis) {
    for (int residue = 0; residue < axis.stride; ++residue) no_tap = no_tap || axis.residue[residue].tap_count == 0;
  }
  traits.push_back({"no_tap", yes_no(no_tap)});
  add_parameters(problem, traits);
  return traits;
}

namespace {

std::string loading(const DepthwiseBox& box) {
  return std::string(box.by_channels ? "channels" : "rows") + (box.quads ? "_quads" : "");
}

}  // namespace

Traits depthwise_tile_traits(const Problem& problem, const DepthwiseTilePlan& plan, const ForwardArguments& arguments) {
  const bool forward = plan.op == Operator::kForward;
  const bool weight_grad = plan.op == Operator::kWeightGrad;
  Traits traits = engine_traits("depthwise",
                                forward       ? "forward"
                                : weight_grad ? "weight_grad"
                                              : "input_grad",
                                type_name(arguments.dtype, Float32Mode::kIeee));
  if (forward) {
    traits.push_back({"bias", yes_no(arguments.bias)});
    traits.push_back({"relu", yes_no(arguments.relu)});
  }
  traits.push_back({"kernel", "tiles"});
  traits.push_back({"run", to_string(plan.run)});
  traits.push_back({"load", loading(plan.box[0])});
  if (weight_grad) traits.push_back({"input_load", loading(plan.box[1])});
  traits.push_back({"threads", plan.by_channels ? "channels" : "width"});
  traits.push_back({"masked", yes_no(plan.masked)});
  traits.push_back({"tile_channels", one_or_many(plan.tile_channels)});
  traits.push_back({"channel_tiles", one_or_many(plan.channel_tiles)});
  traits.push_back({"channel_tail", yes_no(plan.channels % plan.tile_channels != 0)});
  constexpr const char* kTiles[] = {"tiles_d", "tiles_h", "tiles_w"};
  constexpr const char* kTails[] = {"tail_d", "tail_h", "tail_w"};
  constexpr const char* kTaps[] = {"taps_d", "taps_h", "taps_w"};
  for (int i = 0; i < 3; ++i) {
    traits.push_back({kTiles[i], one_or_many(plan.tiles[i])});
    traits.push_back({kTails[i], yes_no(plan.size[i] % plan.tile[i] != 0)});
    traits.push_back({kTaps[i], plan.taps[i] <= 1 ? "1" : plan.taps[i] <= 4 ? "few" : "many"});
  }
  if (weight_grad) {
    traits.push_back({"sharing", one_or_many(plan.sharing)});
    traits.push_back({"splits", one_or_many(plan.splits)});
    traits.push_back({"split_tiles", one_or_many(plan.split_tiles)});
  }
  traits.push_back({"images", one_or_many(plan.batch)});
  add_parameters(problem, traits);
  return traits;
}

Traits depthwise_patch_traits(const Problem& problem, const DepthwisePatchPlan& plan, DataType dtype) {
  const char* const name = plan.op == Operator::kBackward     ? "backward"
                           : plan.op == Operator::kWeightGrad ? "weight_grad"
                                                              : "input_grad";
  Traits traits = engine_traits("depthwise", name, type_name(dtype, Float32Mode::kIeee));
  traits.push_back({"kernel", "patches"});
  traits.push_back({"taps", to_string(plan.taps)});
  traits.push_back({"load", to_string(plan.access)});
  traits.push_back({"lanes", plan.lanes == 1 ? "1" : plan.lanes < 32 ? "few" : "warp"});
  traits.push_back({"channel_tiles", one_or_many(plan.channel_tiles)});
  traits.push_back({"channel_tail", yes_no(plan.channels % plan.tile_channels() != 0)});
  traits.push_back({"tail_w", yes_no(plan.size[2] % plan.patch_width != 0)});
  traits.push_back({"taps_d", plan.depth_taps <= 1 ? "1" : plan.depth_taps <= 4 ? "few" : "many"});
  traits.push_back({"steps", one_or_many(plan.steps)});
  traits.push_back({"item_tiles", one_or_many(plan.item_tiles)});
  if (plan.walks()) {
    traits.push_back({"parts", one_or_many(plan.parts)});
    traits.push_back({"segments", one_or_many(plan.units[1])});
    traits.push_back({"bias", yes_no(plan.has_bias())});
  }
  if (plan.op != Operator::kWeightGrad) traits.push_back({"store", plan.result_vectors ? "vectors" : "elements"});
  if (!plan.walks()) {
    traits.push_back({"tail_h", yes_no(plan.size[1] % depthwise_patch_height(plan.access) != 0)});
  }
  traits.push_back({"images", one_or_many(plan.batch)});
  add_parameters(problem, traits);
  return traits;
}

}  // namespace convt3d
