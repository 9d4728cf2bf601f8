#include "planning/choose.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engines/depthwise/cost.h"
#include "engines/simt/cost.h"

namespace convt3d {
namespace {

using Offer = std::optional<OperatorPlan>;

Offer simt_offer(const PlanQuery& query) {
  const auto& [op, problem, dtype, mode, operands, device, engine] = query;
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
      return OperatorPlan{plan, plan.partial_elements * kPartialBytes, simt_cost(plan, dtype, device)};
    }
    case Operator::kBiasGrad: {
      const BiasGradPlan plan = plan_bias_grad(problem, operands);
      return OperatorPlan{plan, plan.partial_elements * kPartialBytes, simt_cost(problem, plan, dtype, device)};
    }
  }
  return std::nullopt;
}

Offer depthwise_offer(const PlanQuery& query) {
  const auto& [op, problem, dtype, mode, operands, device, engine] = query;
  if (op != Operator::kForward || has_long_kernel(problem)) {
    if (const auto plan = plan_depthwise_tiles(op, problem, dtype, operands)) {
      return OperatorPlan{*plan, plan->workspace_bytes(), depthwise_cost(problem, *plan, dtype, device)};
    }
  }
  if (op != Operator::kForward) return std::nullopt;
  const auto plan = plan_depthwise_forward(problem, dtype, operands);
  if (!plan) return std::nullopt;
  return OperatorPlan{*plan, 0, depthwise_cost(problem, dtype, device)};
}

// Numbers that stand for one of float32 in the tensor cores: TF32, or float32 proper as a high and a low one.
int terms_of(const PlanQuery& query) {
  return query.dtype == DataType::kFloat32 && query.mode == Float32Mode::kIeee ? 2 : 1;
}

Offer wgmma_offer(const PlanQuery& query) {
  if (query.op != Operator::kForward || query.dtype == DataType::kFloat64) return std::nullopt;
  const HaloElement element{static_cast<int32_t>(element_size(query.dtype)), terms_of(query)};
  const auto plan = plan_halo_forward(query.problem, element, query.operands, query.device);
  if (!plan) return std::nullopt;
  return OperatorPlan{*plan, plan->workspace_bytes(), {plan->cost / query.device.clocks_per_ms, true}};
}

Offer mma_offer(const PlanQuery& query) {
  const auto& [op, problem, dtype, mode, operands, device, engine] = query;
  if (op == Operator::kBiasGrad || dtype == DataType::kFloat64) return std::nullopt;
  if (op == Operator::kWeightGrad) {
    const auto plan = mma::plan_weight_grad(problem, dtype, terms_of(query), operands, device);
    if (!plan) return std::nullopt;
    return OperatorPlan{*plan, plan->workspace_bytes(), {plan->cost_ms, false}};
  }
  const auto plan = mma::plan_correlation(
      problem, op == Operator::kForward ? mma::Correlation::kForward : mma::Correlation::kInputGrad, dtype,
      terms_of(query), {operands.first, operands.mask, operands.result}, mma::limits_of(device));
  if (!plan) return std::nullopt;
  return OperatorPlan{*plan, plan->packed_bytes, {plan->cost_ms, false}};
}

struct OfferingEngine {
  Engine engine;
  Offer (*offer)(const PlanQuery&);
};

// Those that settle others come first.
constexpr OfferingEngine kEngines[] = {
    {Engine::kDepthwise, depthwise_offer},
    {Engine::kWgmma, wgmma_offer},
    {Engine::kMma, mma_offer},
    {Engine::kSimt, simt_offer},
};

// Whether a plan of the first engine is taken whatever one of the other costs: of these costs do not decide, as they
// were fitted to measured times each, or are a model's, and never compared with one another.
bool settles(Engine first, Engine other) {
  return first == Engine::kDepthwise || (first == Engine::kWgmma && other != Engine::kDepthwise);
}

bool is_settled(const std::vector<OperatorPlan>& offers, Engine other) {
  return std::any_of(offers.begin(), offers.end(),
                     [&](const OperatorPlan& offer) { return settles(offer.engine(), other); });
}

}  // namespace

OperatorPlan choose(const PlanQuery& query) {
  std::vector<OperatorPlan> offers;
  for (const auto& [engine, offer] : kEngines) {
    if ((query.engine && *query.engine != engine) || !query.device.has(engine)) continue;
    if (is_settled(offers, engine)) continue;
    if (Offer offered = offer(query)) offers.push_back(std::move(*offered));
  }
  if (offers.empty()) {
    throw std::invalid_argument(std::string("convt3d: the engine ") +
                                engine_name(query.engine.value_or(Engine::kSimt)) + " has no plan for this call");
  }
  return *std::min_element(offers.begin(), offers.end(),
                           [](const OperatorPlan& a, const OperatorPlan& b) { return a.cost.ms < b.cost.ms; });
}

}  // namespace convt3d
