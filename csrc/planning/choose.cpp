#include "planning/choose.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engines/depthwise/cost.h"
#include "engines/simt/cost.h"
#include "engines/wgmma/plan/problem.h"
#include "planning/copied_gradient.h"
#include "planning/grad_copy.h"
#include "planning/least_cost.h"
#include "planning/margin.h"
#include "planning/norm_way.h"
#include "planning/separate_plan.h"

namespace convt3d {
namespace {

using Offer = std::optional<OperatorPlan>;

Offer simt_offer(const PlanQuery& query) {
  const auto& [op, problem, dtype, mode, operands, device, engine, candidate, most_copied, sums_bias, is_part, whole,
               norm] = query;
  constexpr int64_t kPartialBytes = element_size(DataType::kFloat64);
  switch (op) {
    case Operator::kForward:
    case Operator::kInputGrad: {
      const CorrelationPlan plan =
          op == Operator::kForward ? plan_forward(problem, dtype, operands) : plan_input_grad(problem, dtype, operands);
      return OperatorPlan{plan, plan.packed_weight_elements * element_size(dtype),
                          simt_cost(op, problem, plan, dtype, device)};
    }
    case Operator::kWeightGrad: {
      const WeightGradPlan plan = plan_weight_grad(problem, dtype, operands);
      return OperatorPlan{plan, plan.partial_elements * kPartialBytes, simt_cost(problem, plan, dtype, device)};
    }
    case Operator::kBiasGrad: {
      const BiasGradPlan plan = plan_bias_grad(problem, query.dtype, operands);
      return OperatorPlan{plan, plan.partial_elements * kPartialBytes, simt_cost(problem, plan, dtype, device)};
    }
    case Operator::kBackward:
    case Operator::kBackwardAndBias:
      break;
  }
  return std::nullopt;
}

Offer depthwise_offer(const PlanQuery& query) {
  const auto& [op, problem, dtype, mode, operands, device, engine, candidate, most_copied, sums_bias, is_part, whole,
               norm] = query;
  const bool with_bias = sums_bias || op == Operator::kBackwardAndBias;
  if (op == Operator::kBackwardAndBias && !sees_all_outputs(query)) return std::nullopt;
  if (const auto plan = plan_depthwise_patches(op, problem, dtype, operands, with_bias)) {
    return OperatorPlan{*plan, plan->workspace_bytes(), depthwise_cost(problem, *plan, dtype, device)};
  }
  if (is_backward(op)) return std::nullopt;
  if (op != Operator::kForward || has_long_kernel(problem)) {
    if (const auto plan = plan_depthwise_tiles(op, problem, dtype, operands, sums_bias)) {
      return OperatorPlan{*plan, plan->workspace_bytes(), depthwise_cost(problem, *plan, dtype, device)};
    }
  }
  if (op != Operator::kForward) return std::nullopt;
  const auto plan = plan_depthwise_forward(problem, dtype, operands);
  if (!plan) return std::nullopt;
  return OperatorPlan{*plan, 0, depthwise_cost(problem, *plan, dtype, device)};
}

OperatorPlan operator_plan(const WgmmaPlan& plan, const DeviceTraits& device) {
  return {plan,
          plan.workspace_bytes(),
          {plan.cost / device.clocks_per_ms, true},
          plan.unstored_cost / device.clocks_per_ms};
}
OperatorPlan operator_plan(const mma::CorrelationPlan& plan, const DeviceTraits&) {
  return {plan, plan.workspace_bytes(), {plan.cost_ms, false}, plan.unstored_ms};
}
template <typename Plan>
OperatorPlan operator_plan(const Plan& plan, const DeviceTraits&) {
  return {plan, plan.workspace_bytes(), {plan.cost_ms, false}};
}

template <typename Plan>
Offer offer_of(const std::optional<Plan>& plan, const DeviceTraits& device) {
  if (!plan) return std::nullopt;
  return operator_plan(*plan, device);
}

template <typename Plan>
std::vector<OperatorPlan> all_of(const std::vector<Plan>& plans, const DeviceTraits& device) {
  std::vector<OperatorPlan> all;
  for (const Plan& plan : plans) all.push_back(operator_plan(plan, device));
  return all;
}

WgmmaElement wgmma_element(const PlanQuery& query) {
  return {static_cast<int32_t>(element_size(query.dtype)), terms_of(query)};
}

// What the wgmma engine computes for a call that is no weight gradient, where it does.
std::optional<WgmmaProblem> wgmma_problem(const PlanQuery& query) {
  if (query.dtype == DataType::kFloat64) return std::nullopt;
  if (query.op == Operator::kForward) return wgmma_forward(query.problem);
  if (query.op != Operator::kInputGrad || query.operands.mask.present) return std::nullopt;
  return wgmma_input_grad(query.problem);
}

// Of a forward any input is copied where that pays.
bool copies_source(const PlanQuery& query) { return query.op == Operator::kForward || may_copy_grad(query); }

// Costs were fitted to forwards.
Offer wgmma_offer(const PlanQuery& query) {
  if (query.op == Operator::kWeightGrad) {
    return offer_of(plan_wgmma_weight_grad(query.problem, query.dtype, terms_of(query), query.operands, query.device,
                                           query.sums_bias),
                    query.device);
  }
  const std::optional<WgmmaProblem> problem = wgmma_problem(query);
  if (!problem) return std::nullopt;
  Offer offer = offer_of(plan_wgmma(*problem, wgmma_element(query), query.operands, query.device, copies_source(query)),
                         query.device);
  if (offer) offer->cost.fitted = query.op == Operator::kForward;
  return offer;
}

std::vector<OperatorPlan> wgmma_plans(const PlanQuery& query) {
  if (query.op == Operator::kWeightGrad) {
    return all_of(
        wgmma_weight_grad_candidates(query.problem, query.dtype, terms_of(query), query.operands, query.device),
        query.device);
  }
  const std::optional<WgmmaProblem> problem = wgmma_problem(query);
  if (!problem) return {};
  return all_of(wgmma_candidates(*problem, wgmma_element(query), query.operands, query.device, copies_source(query)),
                query.device);
}

bool is_for_mma(const PlanQuery& query) { return query.op != Operator::kBiasGrad && query.dtype != DataType::kFloat64; }

mma::Correlation correlation_of(Operator op) {
  return op == Operator::kForward ? mma::Correlation::kForward : mma::Correlation::kInputGrad;
}

Offer mma_offer(const PlanQuery& query) {
  const auto& [op, problem, dtype, mode, operands, device, engine, candidate, most_copied, sums_bias, is_part, whole,
               norm] = query;
  if (!is_for_mma(query)) return std::nullopt;
  if (is_backward(op)) {
    if (op == Operator::kBackwardAndBias && !sees_all_outputs(query)) return std::nullopt;
    return offer_of(
        mma::plan_backward(problem, dtype, terms_of(query), operands, op == Operator::kBackwardAndBias, device),
        device);
  }
  if (op == Operator::kWeightGrad) {
    return offer_of(mma::plan_weight_grad(problem, dtype, terms_of(query), operands, sums_bias, device), device);
  }
  return offer_of(mma::plan_correlation(problem, correlation_of(op), dtype, terms_of(query),
                                        {operands.first, operands.mask, operands.result}, device),
                  device);
}

std::vector<OperatorPlan> mma_plans(const PlanQuery& query) {
  const auto& [op, problem, dtype, mode, operands, device, engine, candidate, most_copied, sums_bias, is_part, whole,
               norm] = query;
  if (!is_for_mma(query)) return {};
  if (is_backward(op)) {
    return all_of(
        mma::backward_candidates(problem, dtype, terms_of(query), operands, op == Operator::kBackwardAndBias, device),
        device);
  }
  if (op == Operator::kWeightGrad) {
    return all_of(mma::weight_grad_candidates(problem, dtype, terms_of(query), operands, device), device);
  }
  return all_of(mma::correlation_candidates(problem, correlation_of(op), dtype, terms_of(query),
                                            {operands.first, operands.mask, operands.result}, device),
                device);
}

Offer matmul_offer(const PlanQuery& query) {
  return offer_of(plan_matmul(query.op, query.problem, query.dtype, terms_of(query), query.operands, query.device),
                  query.device);
}

std::vector<OperatorPlan> matmul_plans(const PlanQuery& query) {
  return all_of(matmul_candidates(query.op, query.problem, query.dtype, terms_of(query), query.operands, query.device),
                query.device);
}

// Of an engine that searches no others.
std::vector<OperatorPlan> no_plans(const PlanQuery&) { return {}; }

struct OfferingEngine {
  Engine engine;
  Offer (*offer)(const PlanQuery&);
  std::vector<OperatorPlan> (*plans)(const PlanQuery&);  // all that it searches, in any order
};

// Of plans that cost the same, the first engine's is taken.
constexpr OfferingEngine kEngines[] = {
    {Engine::kDepthwise, depthwise_offer, no_plans}, {Engine::kMatmul, matmul_offer, matmul_plans},
    {Engine::kWgmma, wgmma_offer, wgmma_plans},      {Engine::kMma, mma_offer, mma_plans},
    {Engine::kSimt, simt_offer, no_plans},
};

// Whether an engine is not searched: its plans cost no less than a bound that is too high already. Tiles that are
// filled up with zeros of other groups are far above that bound: it counts this many times beside the depthwise engine,
// less than the times by which mma's plans were above it for most layers of the benchmark.
bool cannot_win(const PlanQuery& query, const OperatorPlan& best, Engine other) {
  constexpr double kFilledUp = 3;
  if (query.norm) return false;
  const Engine first = *best.engine();
  const double worth = first == Engine::kDepthwise ? kFilledUp : 1;
  return best.cost.ms <= margin(query.op, first, other) * worth * least_cost_ms(query, other);
}

// Of the norm behind a plan, which some make cheaper than others.
double norm_ms(const PlanQuery& query, const OperatorPlan& plan) {
  return query.norm ? choose_norm(plan, *query.norm, query.device).ms : 0;
}

// Whether another engine's plan takes the place of the best so far.
bool is_better(const PlanQuery& query, const OperatorPlan& plan, const OperatorPlan& best) {
  const double worth = margin(query.op, *best.engine(), *plan.engine());
  return plan.cost.ms * worth + norm_ms(query, plan) < best.cost.ms + norm_ms(query, best);
}

std::string name_of_asked(const PlanQuery& query) {
  return std::string("convt3d: the engine ") + engine_name(query.engine.value_or(Engine::kSimt));
}

bool cheaper(const OperatorPlan& a, const OperatorPlan& b) { return a.cost.ms < b.cost.ms; }

[[noreturn]] void throw_no_plan(const PlanQuery& query) {
  throw std::invalid_argument(name_of_asked(query) + " has no plan for this call");
}

// The query for a view of the outputs, where there is one.
std::optional<PlanQuery> viewed(const PlanQuery& query, const std::optional<OutputView>& view) {
  if (!view) return std::nullopt;
  PlanQuery part = query;
  Operands& operands = part.operands;
  part.problem = view->problem;
  if (query.op != Operator::kWeightGrad) {
    OperandTraits& weight = is_backward(query.op) ? operands.weight : operands.second;
    weight = view->joins_weight() ? OperandTraits{} : viewed_weight(*view, weight);
  }
  if (query.op == Operator::kForward) {
    operands.result = viewed(*view, operands.result, element_size(query.dtype));
    part.norm.reset();  // a view's epilogue serves none
    return part;
  }
  part.whole = WholeGradOutput{query.problem, operands.first, operands.mask, view->has_all_outputs()};
  operands.first = viewed(*view, operands.first, element_size(query.dtype));
  operands.first.is_of_dense =
      has_dense_images(part.whole->tensor, query.problem.out_channels, query.problem.output_size());
  operands.mask = viewed(*view, operands.mask, element_size(query.dtype));
  return part;
}

// One engine alone has no plan for the bias's gradient of all outputs beside the others of a view.
bool may_be_viewed(const PlanQuery& query) {
  const bool is_view = query.whole.has_value();
  return query.op != Operator::kBiasGrad && !is_view && !(query.op == Operator::kBackwardAndBias && query.engine);
}

// A view, if it has what is asked for: the bias's gradient is of all outputs.
std::optional<OutputView> if_sufficient(const PlanQuery& query, const std::optional<OutputView>& view) {
  return view && query.sums_bias && !view->has_all_outputs() ? std::nullopt : view;
}

std::optional<OutputView> view_of(const PlanQuery& query) {
  if (!may_be_viewed(query)) return std::nullopt;
  if (query.op == Operator::kForward) return written_outputs(query.problem);
  return if_sufficient(query, read_outputs(query.problem, steps_width(query.operands.first)));
}

// A view that competes with what there is without it.
std::optional<OutputView> joined_view_of(const PlanQuery& query) {
  const bool on_tensor_cores = query.dtype != DataType::kFloat64 && query.device.has(Engine::kMma);
  if (query.op == Operator::kForward || !on_tensor_cores || !may_be_viewed(query)) return std::nullopt;
  return if_sufficient(query, joined_outputs(query.problem, query.operands, element_size(query.dtype)));
}

// What competes with the plans for a view: all gradients from one read of all outputs, which the bias's needs anyway.
// Not beside taps that join other channels, which compete with all there is without a view.
Offer offer_beside_view(const PlanQuery& query, const OutputView& view) {
  const bool may = !view.joins_weight() && query.op == Operator::kBackwardAndBias && query.device.has(Engine::kMma);
  return may ? mma_offer(query) : std::nullopt;
}

std::optional<OperatorPlan> choose_of_view(const PlanQuery& query, const std::optional<OutputView>& view) {
  if (const std::optional<PlanQuery> part = viewed(query, view)) {
    std::optional<OperatorPlan> plan = choose_if_any(*part);
    if (plan) plan->view = view;
    Offer whole = offer_beside_view(query, *view);
    return whole && (!plan || whole->cost.ms < plan->cost.ms) ? std::move(whole) : plan;
  }
  std::optional<OperatorPlan> best;
  for (const auto& [engine, offer, plans] : kEngines) {
    if ((query.engine && *query.engine != engine) || !query.device.has(engine)) continue;
    if (query.sums_bias && (engine == Engine::kMatmul || engine == Engine::kSimt)) continue;
    if (best && cannot_win(query, *best, engine)) continue;
    Offer offered = offer(query);
    if (!offered) continue;
    if (!best || is_better(query, *offered, *best)) best = std::move(offered);
  }
  if (Offer copied = copied_gradient(query)) {
    if (!best || copied->cost.ms < best->cost.ms) best = std::move(copied);
  }
  // An engine that is asked alone computes all gradients at once where it can.
  if (is_backward(query.op) && (!best || !query.engine)) {
    std::optional<OperatorPlan> separate = separate_plan(query);
    if (separate && (!best || separate->cost.ms < best->cost.ms)) best = std::move(separate);
  }
  return best;
}

std::vector<OperatorPlan> candidates_of_view(const PlanQuery& query, const std::optional<OutputView>& view) {
  if (const std::optional<PlanQuery> part = viewed(query, view)) {
    std::vector<OperatorPlan> found = candidates(*part);
    for (OperatorPlan& plan : found) plan.view = view;
    if (Offer whole = offer_beside_view(query, *view)) {
      const bool chosen = whole->cost.ms < found[0].cost.ms;
      found.insert(chosen ? found.begin() : found.end(), *std::move(whole));
    }
    return found;
  }
  std::vector<OperatorPlan> found;
  const auto add = [&](OperatorPlan chosen, std::vector<OperatorPlan> others) {
    const std::string identity = to_string(chosen);
    found.push_back(std::move(chosen));
    for (OperatorPlan& plan : others) {
      if (to_string(plan) != identity) found.push_back(std::move(plan));
    }
    std::stable_sort(found.begin() + 1, found.end(), cheaper);
  };
  if (!query.engine) {
    PlanQuery chosen = query;
    chosen.candidate = 0;
    if (is_backward(query.op)) add(*choose_of_view(chosen, std::nullopt), separate_plans(query));
    return found;
  }
  for (const auto& [engine, offer, plans] : kEngines) {
    if (query.engine != engine || !query.device.has(engine)) continue;
    Offer offered = offer(query);
    std::vector<OperatorPlan> others = offered ? plans(query) : std::vector<OperatorPlan>();
    if (Offer copied = copied_gradient(query)) {
      if (!offered || copied->cost.ms < offered->cost.ms) std::swap(offered, copied);
      if (copied) others.push_back(*std::move(copied));
    }
    if (offered) add(*std::move(offered), std::move(others));
  }
  return found;
}

}  // namespace

std::vector<OperatorPlan> candidates(const PlanQuery& query) {
  std::vector<OperatorPlan> found = candidates_of_view(query, view_of(query));
  const std::optional<OutputView> joined = joined_view_of(query);
  if (!joined) return found;
  std::vector<OperatorPlan> others = candidates_of_view(query, joined);
  if (!others.empty() && (found.empty() || others[0].cost.ms < found[0].cost.ms)) std::swap(found, others);
  std::move(others.begin(), others.end(), std::back_inserter(found));
  if (!found.empty()) std::stable_sort(found.begin() + 1, found.end(), cheaper);
  return found;
}

std::optional<OperatorPlan> choose_if_any(const PlanQuery& query) {
  if (query.candidate > 0) {
    std::vector<OperatorPlan> all = candidates(query);
    if (query.candidate < static_cast<int64_t>(all.size())) return std::move(all[static_cast<size_t>(query.candidate)]);
    if (all.empty()) throw_no_plan(query);
    throw std::invalid_argument(name_of_asked(query) + " has " + std::to_string(all.size()) +
                                " plans for this call, none with the number " + std::to_string(query.candidate));
  }
  std::optional<OperatorPlan> plan = choose_of_view(query, view_of(query));
  if (const std::optional<OutputView> joined = joined_view_of(query)) {
    std::optional<OperatorPlan> other = choose_of_view(query, joined);
    if (other && (!plan || other->cost.ms < plan->cost.ms)) plan = std::move(other);
  }
  return plan;
}

OperatorPlan choose(const PlanQuery& query) {
  std::optional<OperatorPlan> plan = choose_if_any(query);
  if (!plan) throw_no_plan(query);
  return *std::move(plan);
}

}  // namespace convt3d
