// Plans of a backward: of one kernel, or of one for each gradient, in every way.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/channels_copy.h"
#include "planning/choose.h"
#include "queries.h"

namespace convt3d {

inline void test_a_backward_is_one_plan_or_several() {
  for (const Operator op : {Operator::kBackward, Operator::kBackwardAndBias}) {
    const bool bias = op == Operator::kBackwardAndBias;
    PlanQuery query = some_backward(op);
    const OperatorPlan together = choose(query);
    const auto* const plan = std::get_if<mma::BackwardPlan>(&together.plan);
    expect(together.engine() == Engine::kMma && plan != nullptr && plan->grad.has_bias() == bias,
           "one read of grad_output is cheaper than several");
    query.problem.kernel_size[1] = 3;
    query.operands.first = dense_operand(query.problem.out_channels, query.problem.output_size(), true);
    const OperatorPlan apart = choose(query);
    const auto* const separate = std::get_if<SeparatePlan>(&apart.plan);
    expect(!apart.engine() && separate != nullptr && (separate->bias_grad != nullptr || separate->sums_bias()) == bias,
           "taps that meet have a plan for each gradient");
    expect(to_string(apart) == std::string("separate: input_grad=halo_wgmma weight_grad=mma") +
                                   (!bias                   ? ""
                                    : separate->sums_bias() ? " with_bias_grad"
                                                            : " bias_grad=simt"),
           "the plan says who computes what");
    expect(apart.workspace_bytes == separate->workspace_bytes() && apart.workspace_bytes > 0, "... in one workspace");
    PlanQuery one = query;
    one.operands.second = dense_operand(query.problem.out_channels, query.problem.kernel_size, false);
    one.op = Operator::kInputGrad;
    double ms = choose(one).cost.ms;
    one.op = Operator::kWeightGrad;
    one.operands.result = one.operands.second;
    one.operands.second = query.operands.second;
    ms += choose(one).cost.ms;
    expect(bias ? apart.cost.ms > ms : apart.cost.ms == ms, "separate gradients cost what all of them cost");
    query.engine = Engine::kSimt;
    expect(!choose(query).engine() && candidates(query).empty(),
           "an engine without such a plan computes each by itself");
  }
  PlanQuery wide = some_backward(Operator::kBackward);
  wide.dtype = DataType::kFloat64;
  expect(to_string(choose(wide)) == "separate: input_grad=simt weight_grad=simt", "float64 is the general engine's");
}

// Of a layer of groups of one channel: of 27 taps all gradients by one kernel, without a mask.
inline void test_a_depthwise_backward() {
  PlanQuery query = some_backward(Operator::kBackwardAndBias);
  query.problem.in_channels = query.problem.out_channels = query.problem.groups = 16;
  query.problem.input_size = {8, 8, 8};
  query.problem.kernel_size = {3, 3, 3};
  query.problem.padding = {1, 1, 1};
  const auto set_operands = [&] {
    query.operands.first = dense_operand(16, query.problem.output_size(), true);
    query.operands.second = query.operands.result = dense_operand(16, query.problem.input_size, true);
  };
  set_operands();
  const OperatorPlan together = choose(query);
  const auto* const patches = std::get_if<DepthwisePatchPlan>(&together.plan);
  expect(patches != nullptr && patches->op == Operator::kBackward && patches->has_bias(), "27 taps are one read");
  expect(candidates(query).size() > 2, "... or several");
  query.operands.mask = query.operands.first;
  expect(choose(query).sums_bias() || std::holds_alternative<SeparatePlan>(choose(query).plan), "a mask has others");
  query.operands.mask = {};
  query.problem.kernel_size = {5, 5, 5};
  query.problem.padding = {2, 2, 2};
  set_operands();
  expect(to_string(choose(query)) == "separate: input_grad=depthwise weight_grad=depthwise with_bias_grad",
         "more taps have two kernels, of which one has the bias's gradient");
  query.engine = Engine::kDepthwise;
  expect(to_string(choose(query)) == "separate: input_grad=depthwise weight_grad=depthwise with_bias_grad",
         "... also if that engine is asked alone");
  query.problem.kernel_size = {1, 1, 1};
  query.problem.padding = {};
  set_operands();
  expect(to_string(choose(query)) == "separate: input_grad=depthwise weight_grad=depthwise bias_grad=simt",
         "outputs without a tap are the general engine's, whichever is asked alone");
}

// Of a layer whose gradients both read grad_output by its channels.
inline PlanQuery some_separate_backward(const Int3& size) {
  PlanQuery query = some_backward(Operator::kBackwardAndBias);
  query.problem.out_channels = 48;
  query.problem.input_size = size;
  query.problem.kernel_size = {3, 3, 3};
  query.problem.padding = {1, 1, 1};
  query.problem.stride = {2, 2, 2};
  query.operands = dense_operands(query.problem, false);
  std::swap(query.operands.first, query.operands.result);
  query.operands.second = query.operands.result;
  return query;
}

inline const SeparatePlan* separate_of(const OperatorPlan& plan) { return std::get_if<SeparatePlan>(&plan.plan); }

// What ways know of a weight gradient by either engine.
struct WeightTraits {
  bool beside;
  bool copies_grad;
  int64_t blocks;
};
inline WeightTraits weight_traits(const SeparatePlan& way) {
  if (const auto* const of_mma = std::get_if<mma::WeightGradPlan>(&way.weight_grad->plan)) {
    return {of_mma->beside, of_mma->grad_copy.exists, of_mma->blocks()};
  }
  const auto& of_wgmma = std::get<WgmmaWeightGradPlan>(way.weight_grad->plan);
  return {of_wgmma.beside, false, of_wgmma.blocks()};
}

// Whether any way copies grad_output for several gradients.
inline bool copies_grad(const PlanQuery& query) {
  for (const OperatorPlan& plan : candidates(query)) {
    if (separate_of(plan) != nullptr && separate_of(plan)->grad_copy.exists) return true;
  }
  return false;
}

// Of channels that are filled up in a copy, too, which then is no dense tensor of theirs.
inline void test_no_copy_is_copied() {
  PlanQuery query = some_separate_backward({3, 4, 9});
  query.problem.in_channels = 35;
  query.problem.out_channels = 67;
  query.operands = dense_operands(query.problem, false);
  std::swap(query.operands.first, query.operands.result);
  query.operands.second = query.operands.result;
  std::set<bool> copied;
  for (const OperatorPlan& plan : candidates(query)) {
    const SeparatePlan* const way = separate_of(plan);
    if (way == nullptr) continue;
    copied.insert(way->input_copy.exists);
    if (!way->grad_copy.exists) continue;
    const auto* const of_mma = std::get_if<mma::CorrelationPlan>(&way->input_grad->plan);
    const auto* const of_wgmma = std::get_if<WgmmaPlan>(&way->input_grad->plan);
    const auto* const weight = std::get_if<mma::WeightGradPlan>(&way->weight_grad->plan);
    expect(of_mma == nullptr || !of_mma->copy.exists, "mma does not copy a copy");
    expect(of_wgmma == nullptr || !of_wgmma->copy.exists, "wgmma does not copy a copy");
    expect(weight == nullptr || (!weight->grad_copy.exists && !(way->input_copy.exists && weight->input_copy.exists)),
           "a weight gradient does not copy a copy");
  }
  expect(copied.size() == 2, "some ways copy both operands");
}

inline void test_ways_of_separate_gradients() {
  const PlanQuery query = some_separate_backward({16, 17, 31});
  const std::vector<OperatorPlan> all = candidates(query);
  std::set<std::string> copied;
  std::set<bool> sums_bias;
  bool beside = false;
  bool beside_wgmma = false;
  std::set<Engine> weights_by;  // of those beside the input gradient
  for (const OperatorPlan& plan : all) {
    const SeparatePlan* const way = separate_of(plan);
    if (way == nullptr) continue;
    sums_bias.insert(way->sums_bias());
    expect(way->sums_bias() == (way->bias_grad == nullptr), "the bias's gradient is computed once");
    copied.insert(way->input_copy.exists ? "both" : way->grad_copy.exists ? "grad_output" : "none");
    const auto* const of_mma = std::get_if<mma::CorrelationPlan>(&way->input_grad->plan);
    const auto* const of_wgmma = std::get_if<WgmmaPlan>(&way->input_grad->plan);
    const WeightTraits weight = weight_traits(*way);
    expect((of_mma != nullptr || of_wgmma != nullptr) && weight.beside == (way->beside > 0),
           "the weight gradient knows whether it is beside the other");
    const bool copies = of_mma != nullptr ? of_mma->copy.exists : of_wgmma->copy.exists;
    expect(!way->grad_copy.exists || (!copies && !weight.copies_grad), "nobody copies twice");
    if (way->beside > 0) {
      beside = true;
      beside_wgmma = beside_wgmma || of_wgmma != nullptr;
      weights_by.insert(*way->weight_grad->engine());
      const int64_t blocks = of_mma != nullptr ? of_mma->blocks() : of_wgmma->grid.blocks;
      expect(!copies && blocks <= way->beside && weight.blocks <= query.device.multiprocessors - way->beside,
             "each block has a multiprocessor");
      expect(way->weight_grad_offset() >= way->input_grad_offset() + way->input_grad->workspace_bytes,
             "... and each gradient memory of its own");
    }
    expect(
        plan.workspace_bytes >= way->weight_grad_offset() + way->weight_grad->workspace_bytes &&
            plan.workspace_bytes >= way->bias_grad_offset() + (way->bias_grad ? way->bias_grad->workspace_bytes : 0) &&
            way->input_grad_offset() >= way->input_copy_offset() + way->input_copy.bytes() &&
            way->input_copy_offset() >= way->grad_copy.bytes(),
        "the workspace has all parts");
    expect(plan.cost.ms >= all[0].cost.ms, "the cheapest is chosen");
  }
  expect(
      copied == std::set<std::string>{"none", "grad_output", "both"} && beside && beside_wgmma && sums_bias.size() == 2,
      "all ways are there");
  expect(weights_by.count(Engine::kWgmma) == 1, "weight gradients by wgmma are beside, too");
  expect(to_string(choose(query)) == to_string(all[0]), "the first is the choice");

  PlanQuery slice = query;
  slice.operands.first.stride[0] *= 2;
  expect(copies_grad(slice), "a small slice may be copied");
  slice.problem.batch = 256;
  expect(!copies_grad(slice), "a large slice is not copied");
  PlanQuery older = query;
  older.device = device_of_capability(8, 0).traits;
  for (const OperatorPlan& plan : candidates(older)) {
    expect(separate_of(plan) == nullptr || separate_of(plan)->beside == 0,
           "kernels that do not begin early are not beside each other");
  }
  PlanQuery masked = query;
  masked.operands.mask = query.operands.first;
  for (const OperatorPlan& plan : candidates(masked)) {
    const SeparatePlan* const way = separate_of(plan);
    if (way == nullptr) continue;
    const auto* const weight = std::get_if<mma::WeightGradPlan>(&way->weight_grad->plan);
    const bool masks = weight != nullptr && weight->layouts.masked;  // boxes have no place for a mask
    expect(weight != nullptr || way->grad_copy.exists, "boxes are of copies where there is a mask");
    expect(way->grad_copy.masked == way->grad_copy.exists && !(masks && way->grad_copy.exists),
           "a copy has the mask's zeros");
  }
  const PlanQuery large = some_separate_backward({128, 130, 129});
  for (const OperatorPlan& plan : candidates(large)) {
    expect(separate_of(plan) == nullptr ||
               separate_of(plan)->grad_copy.bytes() + separate_of(plan)->input_copy.bytes() <= kMostCopiedBytes,
           "copies are bounded");
  }
}

// Where taps meet every second output only, all gradients but the bias's are of these.
inline void test_gradients_read_the_outputs_that_taps_meet() {
  PlanQuery query = some_separate_backward({16, 17, 31});
  expect(!choose(query).view, "taps without gaps meet all outputs");
  query.problem.dilation = {1, 2, 2};
  query.operands.first = dense_operand(query.problem.out_channels, query.problem.output_size(), false);
  const OperatorPlan chosen = choose(query);
  expect(chosen.view && chosen.view->step == Int3{1, 2, 1} && chosen.view->first == Int3{0, 1, 0},
         "taps meet every second output; a width whose neighbours are contiguous is read whole");
  std::set<bool> copied;
  for (const OperatorPlan& plan : candidates(query)) {
    const SeparatePlan* const way = separate_of(plan);
    if (way == nullptr) continue;
    expect(plan.view.has_value() && !way->input_grad->view && !way->weight_grad->view, "a view is taken once");
    expect(!way->sums_bias() && way->bias_grad != nullptr, "the bias's gradient is of all outputs");
    copied.insert(way->grad_copy.exists);
    expect(!way->grad_copy.exists || way->grad_copy.size == chosen.view->problem.output_size(),
           "of a view no more is copied");
  }
  expect(copied.size() == 2, "a view of what is dense may be copied");
  query.operands.first.stride[0] *= 2;
  query.problem.batch = 256;
  expect(!copies_grad(query), "a view of a large slice is not copied");
}

// What separate plans take for granted: they are made before anybody knows the weight's strides.
inline void test_no_plan_looks_at_the_weight() {
  for (const Operator op : {Operator::kInputGrad, Operator::kWeightGrad}) {
    PlanQuery query = some_separate_backward({16, 17, 31});
    query.op = op;
    OperandTraits Operands::* const weight = op == Operator::kInputGrad ? &Operands::second : &Operands::result;
    query.operands.*weight = dense_operand(query.problem.out_channels, query.problem.kernel_size, false);
    for (const auto engine : {std::optional<Engine>(), std::optional(Engine::kSimt), std::optional(Engine::kMma)}) {
      query.engine = engine;
      const std::string before = to_string(choose(query));
      PlanQuery other = query;
      other.operands.*weight = {{3, 77, 1, 5, 11}, 2, true};
      expect(to_string(choose(other)) == before, "another weight's strides do not change the plan");
    }
  }
}

}  // namespace convt3d
