// The choice of plans and their cache, without torch or a GPU; run by tests/test_plan.py.
#include <algorithm>
#include <initializer_list>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "backward_checks.h"
#include "choice_checks.h"
#include "device_checks.h"
#include "plan_cache_checks.h"
#include "queries.h"

namespace {

using namespace convt3d;

Engine engine_of(PlanQuery query, std::initializer_list<Engine> compiled) {
  query.device.engines = 0;
  for (const Engine engine : compiled) query.device.engines |= engine_bit(engine);
  return *choose(query).engine();
}

void test_engines_of_a_forward() {
  const PlanQuery query = query_of_few_channels();
  expect(engine_of(query, {Engine::kSimt, Engine::kWgmma, Engine::kDepthwise}) == Engine::kDepthwise,
         "few channels go to the depthwise engine");
  expect(engine_of(query, {Engine::kSimt, Engine::kMma, Engine::kWgmma}) == Engine::kWgmma,
         "Hopper's own engine takes what the depthwise engine does not");
  expect(engine_of(query, {Engine::kSimt}) == Engine::kSimt, "an engine that is not compiled is not chosen");
  PlanQuery small = some_query();
  small.problem.in_channels = small.problem.out_channels = 16;
  small.problem.groups = 1;
  small.problem.input_size = {1, 1, 8};
  small.problem.kernel_size = small.problem.stride = small.problem.dilation = {1, 1, 1};
  small.problem.padding = {0, 0, 0};
  expect(choose(small).engine() == Engine::kWgmma, "Hopper's own engine is the cheapest of a small forward, too");
  small.engine = Engine::kSimt;
  expect(choose(small).cost.ms > 0, "... and the other has a plan, too");
  PlanQuery gradient = some_query();
  gradient.problem.batch = 1024;  // images that do not follow one another, and are not small
  for (const Operator op : {Operator::kInputGrad, Operator::kWeightGrad}) {
    gradient.op = op;
    expect(choose(gradient).engine() == Engine::kMma, "costs give gradients to the tensor cores");
    gradient.dtype = DataType::kFloat64;
    expect(choose(gradient).engine() == Engine::kSimt, "float64 is the general engine's");
    gradient.dtype = DataType::kFloat16;
  }
}

void test_an_engine_that_is_asked_alone() {
  PlanQuery query = query_of_few_channels();
  for (const Engine engine : {Engine::kSimt, Engine::kMma, Engine::kWgmma, Engine::kDepthwise}) {
    query.engine = engine;
    const OperatorPlan plan = choose(query);
    expect(plan.engine() == engine && plan.cost.ms > 0, "the engine that is asked computes it");
  }
  query.engine = Engine::kDepthwise;
  query.op = Operator::kWeightGrad;
  try {
    choose(query);
    expect(false, "an engine without a plan is an error");
  } catch (const std::invalid_argument& error) {
    expect(std::string(error.what()) == "convt3d: the engine depthwise has no plan for this call",
           "the error names the engine");
  }
}

void test_an_engine_without_a_plan_for_a_gradient() {
  for (const Engine engine : {Engine::kDepthwise, Engine::kWgmma}) {
    PlanQuery query = some_backward(Operator::kBackward);
    query.problem.padding[2] = 1;  // else taps are channels, of which there are enough for matrix units then
    query.operands.first = dense_operand(query.problem.out_channels, query.problem.output_size(), true);
    query.engine = engine;
    bool refused = false;
    try {
      choose(query);
    } catch (const std::invalid_argument&) {
      refused = true;
    }
    expect(refused, "a backward is an error where the engine has no plan for a gradient");
  }
}

void test_candidates_of_an_engine() {
  PlanCache cache(1);
  for (const Engine engine : {Engine::kMma, Engine::kWgmma, Engine::kSimt, Engine::kDepthwise}) {
    for (const Operator op : {Operator::kForward, Operator::kInputGrad, Operator::kWeightGrad, Operator::kBiasGrad,
                              Operator::kBackward, Operator::kBackwardAndBias}) {
      PlanQuery query = is_backward(op) ? some_backward(op) : query_of_few_channels();
      query.engine = engine;
      query.op = op;
      if (is_backward(op) && engine != Engine::kMma) continue;
      const std::vector<OperatorPlan> all = candidates(query);
      const bool searches = engine == Engine::kMma || engine == Engine::kWgmma;
      const bool forward = op == Operator::kForward;
      const bool computes = engine == Engine::kSimt || forward ||
                            (engine == Engine::kMma && op != Operator::kBiasGrad) ||
                            (engine == Engine::kWgmma && op == Operator::kInputGrad);
      expect(computes ? searches ? all.size() > 1 : all.size() == 1 : all.empty(),
             "an engine has the plans it searches");
      std::set<std::string> different;
      for (size_t i = 0; i < all.size() && i < 20; ++i) {
        different.insert(to_string(all[i]));
        expect(i < 2 || all[i - 1].cost.ms <= all[i].cost.ms, "candidates are in the order of their costs");
        query.candidate = static_cast<int32_t>(i);
        expect(to_string(*cache.get(query)) == to_string(all[i]), "a cache has the same candidates");
        expect(searched(query) == to_string(all[i]),
               "a candidate is chosen by its number; the engine's own is the first");
      }
      expect(different.size() == std::min<size_t>(all.size(), 20), "no candidate is there twice");
      query.candidate = static_cast<int32_t>(all.size());
      try {
        cache.get(query);
        expect(false, "a number past the last candidate's is an error");
      } catch (const std::invalid_argument& error) {
        const std::string words = error.what();
        expect(words.find(all.empty() ? "no plan for this call" : " plans for this call, none with the number ") !=
                   std::string::npos,
               "the error says how many candidates there are");
      }
    }
  }
}

// Who measures plans tells them apart by their words: of problems with taps that have a phase, or a residue, to
// themselves, and with several.
void test_words_tell_plans_apart() {
  for (const Int3 kernel : {Int3{2, 3, 2}, Int3{4, 4, 4}}) {
    for (const Operator op : {Operator::kForward, Operator::kInputGrad, Operator::kWeightGrad}) {
      PlanQuery query = some_query();
      query.engine = Engine::kMma;
      query.op = op;
      query.problem.groups = 1;
      query.problem.in_channels = 64;
      query.problem.out_channels = 56;
      query.problem.input_size = {5, 6, 7};
      query.problem.kernel_size = kernel;
      query.problem.stride = {2, kernel[1] == 4 ? 2 : 1, 2};
      query.problem.padding = query.problem.output_padding = {0, 0, 0};
      query.problem.dilation = {1, 1, 1};
      std::set<std::string> words;
      const std::vector<OperatorPlan> all = candidates(query);
      for (const OperatorPlan& plan : all) words.insert(to_string(plan));
      expect(all.size() > 1 && words.size() == all.size(), "plans of different words are different plans");
    }
  }
}

}  // namespace

int main() {
  test_engines_of_a_forward();
  test_no_plan_costs_less_than_its_engines_bound();
  test_the_cheapest_engine_wins();
  test_a_backward_is_one_plan_or_several();
  test_a_depthwise_backward();
  test_no_copy_is_copied();
  test_ways_of_separate_gradients();
  test_gradients_read_the_outputs_that_taps_meet();
  test_no_plan_looks_at_the_weight();
  test_an_engine_that_is_asked_alone();
  test_an_engine_without_a_plan_for_a_gradient();
  test_candidates_of_an_engine();
  test_words_tell_plans_apart();
  test_plans_are_for_their_device();
  test_costs_are_in_the_times_of_the_device();
  test_table_of_devices();
  test_plans_of_another_device();
  test_same_query_is_searched_once();
  test_every_part_of_a_query_counts();
  test_oldest_plan_is_forgotten_and_stays_valid();
  test_threads();
  return failures == 0 ? 0 : 1;
}
