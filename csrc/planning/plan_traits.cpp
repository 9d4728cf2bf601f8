#include "planning/plan_traits.h"

#include "core/trait_values.h"
#include "engines/depthwise/traits.h"
#include "engines/matmul/traits.h"
#include "engines/mma/traits.h"
#include "engines/simt/traits.h"
#include "engines/wgmma/plan/traits.h"
#include "engines/wgmma/weight_grad/traits.h"

namespace convt3d {
namespace {

struct TraitsOf {
  const PlanQuery& query;
  ForwardArguments arguments;

  Traits operator()(const CorrelationPlan& plan) const {
    return query.op == Operator::kForward ? simt_traits(query.problem, plan, arguments)
                                          : input_grad_traits(query.problem, plan, query.dtype);
  }
  Traits operator()(const WeightGradPlan& plan) const { return weight_grad_traits(query.problem, plan, query.dtype); }
  Traits operator()(const BiasGradPlan& plan) const { return bias_grad_traits(query.problem, plan, query.dtype); }
  Traits operator()(const DepthwiseForwardPlan& plan) const { return depthwise_traits(query.problem, plan, arguments); }
  Traits operator()(const DepthwiseTilePlan& plan) const {
    return depthwise_tile_traits(query.problem, plan, arguments);
  }
  Traits operator()(const DepthwisePatchPlan& plan) const {
    return depthwise_patch_traits(query.problem, plan, query.dtype);
  }
  Traits operator()(const mma::CorrelationPlan& plan) const {
    return query.op == Operator::kForward ? mma::forward_traits(query.problem, plan, arguments)
                                          : mma::input_grad_traits(query.problem, plan, arguments);
  }
  Traits operator()(const WgmmaWeightGradPlan& plan) const {
    return wgmma_weight_grad_traits(query.problem, plan, arguments);
  }
  Traits operator()(const mma::WeightGradPlan& plan) const {
    return mma::weight_grad_traits(query.problem, plan, arguments);
  }
  Traits operator()(const mma::BackwardPlan& plan) const {
    return mma::backward_traits(query.problem, plan, arguments);
  }
  Traits operator()(const MatmulPlan& plan) const { return matmul_traits(query.problem, plan, arguments); }
  Traits operator()(const SeparatePlan& plan) const {
    const char* const name = !plan.weight_grad ? "input_grad" : !plan.input_grad ? "weight_grad" : "backward";
    Traits traits = engine_traits("separate", name, type_name(arguments.dtype, arguments.mode));
    if (!is_backward(query.op)) {
      traits.push_back({"copied", plan.input_copy.exists ? "both" : "grad_output"});
      traits.push_back({"rounds", one_or_many(plan.rounds)});
      return traits;
    }
    traits.push_back({"bias", plan.bias_grad != nullptr ? "alone" : plan.sums_bias() ? "in_rows" : "no"});
    const auto* const of_mma = std::get_if<mma::WeightGradPlan>(&plan.weight_grad->plan);
    if (plan.sums_bias() && of_mma != nullptr) {
      traits.push_back({"bias_rows", to_string(of_mma->layouts.grad)});
      traits.push_back({"bias_pairs", yes_no(of_mma->pairs.exist)});
      traits.push_back({"bias_groups", one_or_many(of_mma->warps_groups)});
      traits.push_back({"bias_parts", one_or_many(of_mma->part_count())});
      traits.push_back({"bias_n_chunks", one_or_many(of_mma->n_chunks)});
    }
    const auto* const patches = std::get_if<DepthwisePatchPlan>(&plan.weight_grad->plan);
    if (plan.sums_bias() && patches != nullptr) traits.push_back({"bias_patches", to_string(patches->access)});
    const auto* const tiles = std::get_if<DepthwiseTilePlan>(&plan.weight_grad->plan);
    if (plan.sums_bias() && tiles != nullptr) {
      traits.push_back({"bias_tiles", tiles->box[0].split_columns != 0 ? "split" : "whole"});
      traits.push_back({"bias_channels", one_or_many(tiles->tile_channels)});
    }
    const auto* const of_wgmma = std::get_if<WgmmaWeightGradPlan>(&plan.weight_grad->plan);
    if (plan.sums_bias() && of_wgmma != nullptr) {
      traits.push_back({"bias_panels", one_or_many(of_wgmma->grad.panels)});
      traits.push_back({"bias_parts", one_or_many(of_wgmma->parts())});
      traits.push_back({"bias_m_chunks", one_or_many(of_wgmma->m_chunks)});
    }
    traits.push_back({"copied", plan.input_copy.exists ? "both" : plan.grad_copy.exists ? "grad_output" : "none"});
    traits.push_back({"input_grad_copied", yes_no(plan.grad_copy.exists && !plan.leaves_copy)});
    traits.push_back({"beside", yes_no(plan.beside > 0)});
    return traits;
  }
  Traits operator()(const WgmmaPlan& plan) const {
    return query.op == Operator::kForward ? wgmma_traits(plan, arguments) : wgmma_input_grad_traits(plan, arguments);
  }
};

// What a plan has of the outputs: all as they are, every so many-th, taps as channels, taps as channels behind others.
const char* view_name(const std::optional<OutputView>& view) {
  if (!view) return "none";
  if (view->joins_weight()) return "taps_behind_channels";
  return view->width_channels ? "taps" : "every";
}

}  // namespace

Traits plan_traits(const PlanQuery& query, const OperatorPlan& plan, bool bias, bool relu) {
  Traits traits = std::visit(TraitsOf{query, {query.dtype, query.mode, bias, relu}}, plan.plan);
  traits.push_back({"view", view_name(plan.view)});
  return traits;
}

}  // namespace convt3d
