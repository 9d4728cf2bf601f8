// Traits of the engines whose kernels hold one tile in registers, and of the choice between the engines.
#include "plan_traits.h"

#include "access.h"
#include "depthwise_access.h"
#include "integer.h"
#include "trait_values.h"

namespace convt3d {
namespace {

// What correlations share, whichever tensors they are of.
void add_correlation(const CorrelationPlan& plan, DataType dtype, const ConstTensor& source, const ConstTensor& mask,
                     const MutableTensor& destination, Traits& traits) {
  const bool is_double = dtype == DataType::kFloat64;
  const int64_t bytes = element_size(dtype);
  int64_t positions = plan.batch;
  for (const AxisMap& axis : plan.axis) positions *= axis_phase(axis, 0).extent;
  traits.push_back({"tile", to_string(plan.tile)});
  traits.push_back({"masked", yes_no(mask.data != nullptr)});
  traits.push_back({"load", has_quads(source, mask, bytes, plan.k_channels) ? "quads" : "elements"});
  traits.push_back({"store", has_quads(as_const(destination), bytes, plan.n_channels) ? "quads"
                             : destination.stride[1] == 1                             ? "channels"
                                                                                      : "positions"});
  traits.push_back({"phases", one_or_many(plan.phases)});
  traits.push_back({"tiles_m", one_or_many(plan.tiles_m)});
  traits.push_back({"tiles_n", one_or_many(plan.tiles_n)});
  traits.push_back({"groups", one_or_many(plan.groups)});
  traits.push_back({"images", one_or_many(plan.batch)});
  traits.push_back({"m_tail", yes_no(positions % tile_extent(plan.tile, is_double).m != 0)});
  traits.push_back({"n_tail", yes_no(plan.n_channels != plan.n_padded)});
  traits.push_back({"k_tail", yes_no(plan.k_channels != plan.k_padded)});
  traits.push_back({"k_tiles", one_or_many(plan.k_padded / tile_extent(plan.tile, is_double).k)});
}

Traits engine_traits(const char* engine, const char* operation, const std::string& type) {
  return {{"engine", engine}, {"operator", operation}, {"type", type}};
}

void add_parameters(const Problem& problem, Traits& traits) {
  for (int i = 0; i < 3; ++i) traits.push_back({kStrideNames[i], one_two_many(problem.stride[i])});
  for (int i = 0; i < 3; ++i) traits.push_back({kDilationNames[i], one_or_many(problem.dilation[i])});
}

}  // namespace

Traits simt_traits(const Problem& problem, const CorrelationPlan& plan, const ForwardArguments& arguments,
                   const ConstTensor& input, const MutableTensor& output) {
  Traits traits = engine_traits("simt", "forward", type_name(arguments.dtype, Float32Mode::kIeee));
  traits.push_back({"bias", yes_no(arguments.bias)});
  traits.push_back({"relu", yes_no(arguments.relu)});
  traits.push_back({"empty_phase", yes_no(plan.has_empty_phase)});
  add_correlation(plan, arguments.dtype, input, {}, output, traits);
  add_parameters(problem, traits);
  return traits;
}

Traits depthwise_traits(const Problem& problem, const DepthwisePlan& regular_plan, const ForwardArguments& arguments,
                        const ConstTensor& input, const MutableTensor& output) {
  const DepthwiseAccess access = choose_access(problem, regular_plan, arguments.dtype, input, output);
  const DepthwisePlan plan = access.regular
                                 ? regular_plan
                                 : plan_depthwise_forward(problem, static_cast<int>(element_size(arguments.dtype)),
                                                          regular_plan.channels, false);
  const bool any = plan.width == DepthwiseWidth::kAny;
  const bool vectors = access.source_vectors && access.destination_vectors;
  Traits traits = engine_traits("depthwise", "forward", type_name(arguments.dtype, Float32Mode::kIeee));
  traits.push_back({"bias", yes_no(arguments.bias)});
  traits.push_back({"relu", yes_no(arguments.relu)});
  traits.push_back(
      {"kernel", std::string(plan.channels ? "channels" : "rows") + (any                            ? "_any"
                                                                     : plan.paired && plan.channels ? "_pairs"
                                                                     : plan.paired && vectors       ? "_pairs"
                                                                     : plan.paired                  ? "_paired"
                                                                                                    : "")});
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

Traits forward_traits(const Problem& problem, const ForwardPlan& plan, const ForwardArguments& arguments,
                      const ConstTensor& input, const MutableTensor& output) {
  switch (plan.engine) {
    case ForwardEngine::kSimt:
      return simt_traits(problem, plan.simt, arguments, input, output);
    case ForwardEngine::kHaloWgmma:
      return halo_traits(problem, plan.halo, arguments, input, output);
    case ForwardEngine::kDepthwise:
      return depthwise_traits(problem, plan.depthwise, arguments, input, output);
  }
  return {};
}

Traits input_grad_traits(const Problem& problem, DataType dtype, const ConstTensor& grad_output,
                         const ConstTensor& relu_output, const MutableTensor& grad_input) {
  Traits traits = engine_traits("simt", "input_grad", type_name(dtype, Float32Mode::kIeee));
  add_correlation(plan_input_grad(problem, dtype), dtype, grad_output, relu_output, grad_input, traits);
  add_parameters(problem, traits);
  return traits;
}

Traits weight_grad_traits(const Problem& problem, DataType dtype, const ConstTensor& grad_output,
                          const ConstTensor& relu_output, const ConstTensor& input) {
  const WeightGradPlan plan = plan_weight_grad(problem, dtype);
  const TileExtent tile = tile_extent(plan.tile, dtype == DataType::kFloat64);
  const int64_t bytes = element_size(dtype);
  Traits traits = engine_traits("simt", "weight_grad", type_name(dtype, Float32Mode::kIeee));
  traits.push_back({"tile", to_string(plan.tile)});
  traits.push_back({"masked", yes_no(relu_output.data != nullptr)});
  traits.push_back(
      {"grad_output", has_quads(grad_output, relu_output, bytes, plan.row_channels) ? "quads" : "elements"});
  traits.push_back({"input", has_quads(input, bytes, plan.n_channels) ? "quads" : "elements"});
  traits.push_back({"splits", one_or_many(plan.splits)});
  traits.push_back({"split_tail", yes_no(plan.positions % plan.split_positions != 0)});
  traits.push_back({"tiles_m", one_or_many(plan.tiles_m)});
  traits.push_back({"tiles_n", one_or_many(plan.tiles_n)});
  traits.push_back({"groups", one_or_many(plan.groups)});
  traits.push_back({"images", one_or_many(plan.batch)});
  traits.push_back({"row_tail", yes_no(plan.row_channels != plan.row_padded)});
  traits.push_back({"m_tail", yes_no(plan.rows % tile.m != 0)});
  traits.push_back({"n_tail", yes_no(plan.n_channels % tile.n != 0)});
  traits.push_back({"k_tail", yes_no(plan.positions % tile.k != 0)});
  add_parameters(problem, traits);
  return traits;
}

Traits bias_grad_traits(const std::array<int64_t, 5>& size, DataType dtype, const ConstTensor& grad_output,
                        const ConstTensor& relu_output) {
  const BiasGradPlan plan = plan_bias_grad(size, grad_output.stride[1] == 1);
  Traits traits = engine_traits("simt", "bias_grad", type_name(dtype, Float32Mode::kIeee));
  traits.push_back({"masked", yes_no(relu_output.data != nullptr)});
  traits.push_back({"lanes", plan.channel_lanes == 1 ? "1" : "32"});
  traits.push_back({"collapsed", yes_no(collapses(grad_output, relu_output, {size[2], size[3], size[4]}))});
  traits.push_back({"channel_blocks", one_or_many(plan.channel_blocks)});
  traits.push_back({"channel_tail", yes_no(size[1] % plan.channel_lanes != 0)});
  traits.push_back({"splits", one_or_many(plan.splits)});
  traits.push_back({"images", one_or_many(size[0])});
  return traits;
}

std::string to_string(const Traits& traits) {
  std::string text;
  for (const Trait& trait : traits) {
    if (!text.empty()) text += ' ';
    text += trait.name;
    text += '=';
    text += trait.value;
  }
  return text;
}

}  // namespace convt3d
