#include "planning/copied_gradient.h"

#include <memory>
#include <utility>

#include "planning/backward_ms.h"
#include "planning/grad_copies.h"
#include "planning/grad_copy.h"

namespace convt3d {
namespace {

std::optional<OperatorPlan> with_copies(const PlanQuery& query, const GradCopies& copies) {
  const bool of_input = query.op == Operator::kInputGrad;
  const int64_t rounds = copies.rounds(query.problem);
  if (of_input && rounds == 1) return std::nullopt;  // which wgmma has by itself
  PlanQuery round = gradient_of_copies(query, query.op, copies, query.operands.second);
  round.engine = Engine::kWgmma;
  std::optional<OperatorPlan> found = choose_if_any(round);
  if (!found) return std::nullopt;
  auto gradient = std::make_shared<const OperatorPlan>(*std::move(found));
  SeparatePlan plan{};
  (of_input ? plan.input_grad : plan.weight_grad) = gradient;
  plan.grad_copy = copies.grad;
  plan.input_copy = copies.input;
  plan.rounds = rounds;
  const double ms = static_cast<double>(rounds) * gradient->cost.ms + copies_ms(query, copies);
  return OperatorPlan{plan, plan.workspace_bytes(), {ms * copied_factor(query.dtype), gradient->cost.fitted}};
}

}  // namespace

std::optional<OperatorPlan> copied_gradient(const PlanQuery& query) {
  const bool is_gradient = query.op == Operator::kInputGrad || query.op == Operator::kWeightGrad;
  if (!is_gradient || query.is_part || query.engine.value_or(Engine::kWgmma) != Engine::kWgmma) return std::nullopt;
  if (!query.device.has(Engine::kWgmma)) return std::nullopt;
  const OperandCopy grad = copied_grad(query);
  if (!grad.exists || !may_copy_grad(query)) return std::nullopt;
  std::optional<OperatorPlan> best;
  const auto add = [&](const OperandCopy& input) {
    const std::optional<GradCopies> copies = grad_copies(query, grad, input);
    std::optional<OperatorPlan> plan = copies ? with_copies(query, *copies) : std::nullopt;
    if (plan && (!best || plan->cost.ms < best->cost.ms)) best = std::move(plan);
  };
  add({});
  if (query.op == Operator::kWeightGrad) {
    const OperandCopy input = copied_input(query);
    if (input.exists) add(input);
  }
  return best;
}

}  // namespace convt3d
