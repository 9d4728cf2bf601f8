#include "engines/matmul/traits.h"

#include <string>

#include "core/trait_values.h"

namespace convt3d {

Traits matmul_traits(const Problem& problem, const MatmulPlan& plan, const ForwardArguments& arguments) {
  const bool is_gradient = plan.op == Operator::kInputGrad;
  const MatmulExtent extent = plan.extent();
  const int32_t depth = kMatmulStageBytes / plan.element_bytes;
  Traits traits =
      engine_traits("matmul", is_gradient ? "input_grad" : "forward", type_name(arguments.dtype, arguments.mode));
  traits.push_back({"bias", yes_no(arguments.bias)});
  traits.push_back({"relu", yes_no(arguments.relu)});
  traits.push_back({"tile", std::to_string(extent.m) + "x" + std::to_string(extent.n)});
  traits.push_back({"teams", std::to_string(plan.teams)});
  traits.push_back({"rows", to_string(plan.rows)});
  traits.push_back({"linear", yes_no(plan.linear)});
  traits.push_back({"by_positions", yes_no(plan.by_positions)});
  traits.push_back({"copied", std::to_string(plan.copied_bytes)});
  traits.push_back({"columns", plan.channels_last ? "taps_channels" : "channels_taps"});
  traits.push_back({"store", plan.store.of_positions ? "of_positions"
                             : plan.store.by_pieces  ? "columns"
                                                     : "positions"});
  traits.push_back({"stored", std::to_string(plan.store.elements)});
  traits.push_back({"weights", plan.resident ? "stay" : "come"});
  traits.push_back({"buffers", std::to_string(plan.buffers)});
  traits.push_back({"k_stages", one_or_many(plan.k_stages)});
  traits.push_back({"k_tail", yes_no(plan.k % depth != 0)});
  traits.push_back({"m_tail", yes_no(plan.positions % extent.m != 0)});
  traits.push_back({"n_tail", yes_no(plan.columns % extent.n != 0)});
  traits.push_back({"n_tiles", one_or_many(plan.n_tiles)});
  traits.push_back({"walkers", one_or_many(plan.walkers)});
  traits.push_back({"splits", one_or_many(plan.splits)});
  traits.push_back({"walked", one_or_many((plan.m_tiles + plan.walkers - 1) / plan.walkers)});
  traits.push_back({"groups", one_or_many(plan.groups)});
  traits.push_back({"images", one_or_many(problem.batch)});
  add_parameters(problem, traits);
  return traits;
}

}  // namespace convt3d
