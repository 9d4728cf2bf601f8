#include "engines/simt/traits.h"

#include "core/access.h"
#include "core/integer.h"
#include "core/trait_values.h"

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
  traits.push_back(
      {"load", has_quads(operand_traits(source), operand_traits(mask), bytes, plan.k_channels) ? "quads" : "elements"});
  traits.push_back({"store", has_quads(operand_traits(destination), bytes, plan.n_channels) ? "quads"
                             : destination.stride[1] == 1                                   ? "channels"
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
      {"grad_output", has_quads(operand_traits(grad_output), operand_traits(relu_output), bytes, plan.row_channels)
                          ? "quads"
                          : "elements"});
  traits.push_back({"input", has_quads(operand_traits(input), bytes, plan.n_channels) ? "quads" : "elements"});
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
  traits.push_back({"collapsed", yes_no(collapses(operand_traits(grad_output), operand_traits(relu_output),
                                                  {size[2], size[3], size[4]}))});
  traits.push_back({"channel_blocks", one_or_many(plan.channel_blocks)});
  traits.push_back({"channel_tail", yes_no(size[1] % plan.channel_lanes != 0)});
  traits.push_back({"splits", one_or_many(plan.splits)});
  traits.push_back({"images", one_or_many(size[0])});
  return traits;
}

}  // namespace convt3d
