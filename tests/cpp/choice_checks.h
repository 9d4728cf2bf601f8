// That the cheapest engine wins, and what is not searched could not have.
#pragma once

#include <algorithm>
#include <optional>
#include <random>

#include "core/devices.h"
#include "planning/choose.h"
#include "planning/least_cost.h"
#include "queries.h"

namespace convt3d {

inline PlanQuery drawn_query(std::mt19937& random) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  PlanQuery query{};
  Problem& problem = query.problem;
  do {
    problem.batch = draw(1, 4);
    problem.groups = draw(0, 2) > 0 ? 1 : draw(1, 64);
    problem.in_channels = problem.groups * (problem.groups > 8 ? draw(1, 2) : draw(1, 96));
    problem.out_channels = problem.groups * (problem.groups > 8 ? 1 : draw(1, 96));
    for (size_t axis = 0; axis < 3; ++axis) {
      problem.input_size[axis] = draw(1, draw(0, 3) == 0 ? 64 : 20);
      problem.kernel_size[axis] = draw(1, 5);
      problem.stride[axis] = draw(1, 3);
      problem.padding[axis] = draw(0, 3);
      problem.dilation[axis] = draw(1, 2);
      problem.output_padding[axis] = 0;
    }
  } while (problem.output_size(0) <= 0 || problem.output_size(1) <= 0 || problem.output_size(2) <= 0);
  const Operator ops[] = {Operator::kForward, Operator::kInputGrad, Operator::kWeightGrad};
  query.op = ops[draw(0, 2)];
  query.operands = dense_operands(problem, draw(0, 1) == 0);
  if (query.op != Operator::kForward) std::swap(query.operands.first, query.operands.result);
  if (query.op == Operator::kWeightGrad) std::swap(query.operands.second, query.operands.result);
  if (query.op != Operator::kForward && draw(0, 2) == 0) query.operands.mask = query.operands.first;
  query.dtype = draw(0, 1) == 0 ? DataType::kFloat32 : DataType::kFloat16;
  query.mode = draw(0, 1) == 0 ? Float32Mode::kIeee : Float32Mode::kTf32;
  const int capabilities[] = {80, 89, 90};
  const int capability = capabilities[draw(0, 2)];
  query.device = device_of_capability(capability / 10, capability % 10).traits;
  return query;
}

inline std::optional<OperatorPlan> plan_by(PlanQuery query, Engine engine) {
  query.engine = engine;
  return query.device.has(engine) ? choose_if_any(query) : std::nullopt;
}

inline void test_no_plan_costs_less_than_its_engines_bound() {
  std::mt19937 random(11);
  int compared = 0;
  double closest = 0;
  for (int i = 0; i < 300; ++i) {
    const PlanQuery query = drawn_query(random);
    for (const Engine engine : {Engine::kWgmma, Engine::kMma}) {
      const std::optional<OperatorPlan> plan = plan_by(query, engine);
      if (!plan) continue;
      const double least = least_cost_ms(query, engine);
      expect(least > 0 && plan->cost.ms >= least, "no plan costs less than its engine's bound");
      closest = std::max(closest, least / plan->cost.ms);
      ++compared;
    }
  }
  expect(compared > 200 && closest > 0.5, "bounds are close to some plans");
}

// Costs of engines that were compared decide alone, those of others by more than what they are worth (choose.cpp).
inline void test_the_cheapest_engine_wins() {
  std::mt19937 random(12);
  int changed[4] = {};
  for (int i = 0; i < 300; ++i) {
    PlanQuery query = drawn_query(random);
    query.is_part = true;  // by one engine, without copies of others
    const OperatorPlan chosen = choose(query);
    const Engine winner = *chosen.engine();
    ++changed[static_cast<int>(winner)];
    for (const Engine engine : {Engine::kSimt, Engine::kDepthwise, Engine::kWgmma, Engine::kMma}) {
      const std::optional<OperatorPlan> plan = plan_by(query, engine);
      if (!plan) continue;
      const bool input_grad = query.op == Operator::kInputGrad && engine == Engine::kMma;
      const double worth = winner == Engine::kDepthwise ? 4 : winner == Engine::kWgmma && !input_grad ? 1.16 : 1;
      expect(chosen.cost.ms <= worth * plan->cost.ms, "no engine is cheaper by more than costs are worth");
      if (engine == winner) expect(to_string(chosen) == to_string(*plan), "the plan is its engine's own");
    }
  }
  for (const int count : changed) expect(count > 0, "every engine wins some calls");
}

}  // namespace convt3d
