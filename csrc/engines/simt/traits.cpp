#include "engines/simt/traits.h"

#include "core/integer.h"
#include "core/trait_values.h"

namespace convt3d {
namespace {

// What correlations share, whichever tensors they are of.
void add_correlation(const CorrelationPlan& plan, DataType dtype, Traits& traits) {
  const bool is_double = dtype == DataType::kFloat64;
  int64_t positions = plan.batch;
  for (const AxisMap& axis : plan.axis) positions *= axis_phase(axis, 0).extent;
  traits.push_back({"tile", to_string(plan.tile)});
  traits.push_back({"masked", yes_no(plan.masked)});
  traits.push_back({"load", plan.source.quads ? "quads" : "elements"});
  traits.push_back({"store", plan.destination_quads                 ? "quads"
                             : plan.destination_channels_contiguous ? "channels"
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

Traits simt_traits(const Problem& problem, const CorrelationPlan& plan, const ForwardArguments& arguments) {
  Traits traits = engine_traits("simt", "forward", type_name(arguments.dtype, Float32Mode::kIeee));
  traits.push_back({"bias", yes_no(arguments.bias)});
  traits.push_back({"relu", yes_no(arguments.relu)});
  traits.push_back({"empty_phase", yes_no(plan.has_empty_phase)});
  add_correlation(plan, arguments.dtype, traits);
  add_parameters(problem, traits);
  return traits;
}

Traits input_grad_traits(const Problem& problem, const CorrelationPlan& plan, DataType dtype) {
  Traits traits = engine_traits("simt", "input_grad", type_name(dtype, Float32Mode::kIeee));
  add_correlation(plan, dtype, traits);
  add_parameters(problem, traits);
  return traits;
}

Traits weight_grad_traits(const Problem& problem, const WeightGradPlan& plan, DataType dtype) {
  const TileExtent tile = tile_extent(plan.tile, dtype == DataType::kFloat64);
  Traits traits = engine_traits("simt", "weight_grad", type_name(dtype, Float32Mode::kIeee));
  traits.push_back({"tile", to_string(plan.tile)});
  traits.push_back({"masked", yes_no(plan.masked)});
  traits.push_back({"grad_output", plan.grad_output.quads ? "quads" : "elements"});
  traits.push_back({"input", plan.input.quads ? "quads" : "elements"});
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

Traits bias_grad_traits(const Problem& problem, const BiasGradPlan& plan, DataType dtype) {
  const int64_t channels =
      plan.read == BiasGradRead::kChannels ? kBiasGradBytes / element_size(dtype) : 1;  // of a thread
  Traits traits = engine_traits("simt", "bias_grad", type_name(dtype, Float32Mode::kIeee));
  traits.push_back({"masked", yes_no(plan.masked)});
  traits.push_back({"load", to_string(plan.read)});
  traits.push_back({"lanes", one_or_many(plan.channel_lanes)});
  traits.push_back({"collapsed", yes_no(plan.collapsed)});
  traits.push_back({"channel_blocks", one_or_many(plan.channel_blocks)});
  traits.push_back(
      {"channel_tail", yes_no(plan.channel_blocks * plan.channel_lanes * channels != problem.out_channels)});
  traits.push_back({"splits", one_or_many(plan.splits)});
  traits.push_back({"images", one_or_many(problem.batch)});
  return traits;
}

}  // namespace convt3d
