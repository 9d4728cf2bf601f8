#include "check/plans.h"

#include <array>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "check/tensor.h"
#include "core/devices.h"
#include "engines/wgmma/plan/problem.h"
#include "planning/choose.h"
#include "planning/operator_plan.h"

namespace check {
namespace {

convt3d::OperandTraits operand(const Case& item, const Size5& size, Layout layout, const Arrangement& arrangement) {
  const Place place = place_of(size, layout, arrangement);
  const auto bytes = convt3d::element_size(item.data_type());
  return {place.stride, static_cast<int32_t>(place.first * bytes % convt3d::kAddressModulus), true};
}

convt3d::Engine engine_of(Engine engine) {
  switch (engine) {
    case Engine::kDepthwise:
      return convt3d::Engine::kDepthwise;
    case Engine::kWgmma:
      return convt3d::Engine::kWgmma;
    case Engine::kMma:
      return convt3d::Engine::kMma;
    case Engine::kMatmul:
      return convt3d::Engine::kMatmul;
    default:
      return convt3d::Engine::kSimt;
  }
}

// By the seed with little shared memory, and so few multiprocessors that blocks have several tiles.
convt3d::DeviceTraits some_device(const Case& item, const std::array<int32_t, 3>& shared_kilobytes) {
  Random random(item.seed);
  constexpr int32_t kMultiprocessors[] = {1, 6, 132};
  convt3d::DeviceTraits device = device_of(item);
  device.multiprocessors = kMultiprocessors[between(random, 0, 2)];
  device.shared_bytes = shared_kilobytes[static_cast<std::size_t>(between(random, 0, 2))] * 1024;
  return device;
}
convt3d::DeviceTraits matmul_device(const Case& item) { return some_device(item, {99, 163, 227}); }

// Of a copy with its channels last.
int64_t image_bytes(const Case& item, const Size5& size) {
  const auto channels = (size[1] * convt3d::element_size(item.data_type()) + 15) / 16 * 16;
  return channels * size[2] * size[3] * size[4];
}

// Of the input, the weight or both.
bool is_gradient(Operator op) {
  return op == Operator::kBackward || op == Operator::kInputGrad || op == Operator::kWeightGrad;
}

convt3d::PlanQuery query_of(const Case& item, const convt3d::Operands& operands) {
  convt3d::PlanQuery query{};
  query.op = item.op == Operator::kBackward && item.bias ? convt3d::Operator::kBackwardAndBias
                                                         : static_cast<convt3d::Operator>(item.op);
  query.problem = item.problem;
  query.dtype = item.data_type();
  query.mode = item.float32_mode();
  query.operands = operands;
  query.device =
      item.op == Operator::kWeightGrad && item.engine == Engine::kWgmma ? weight_grad_device(item) : device_of(item);
  if (item.engine == Engine::kMatmul) query.device = matmul_device(item);
  const bool asks =
      item.op == Operator::kForward ||
      (item.engine == Engine::kWgmma && (item.op == Operator::kInputGrad || item.op == Operator::kWeightGrad)) ||
      (item.engine == Engine::kMatmul && item.op == Operator::kInputGrad) ||
      (item.op != Operator::kBiasGrad && (item.engine == Engine::kMma || item.engine == Engine::kDepthwise));
  if (is_gradient(item.op) && item.engine == Engine::kAuto && item.seed % 2 == 0) {
    query.most_copied =
        2 * (image_bytes(item, item.output_size()) + image_bytes(item, item.input_size()));  // some rounds
  }
  if (item.engine != Engine::kAuto && asks) query.engine = engine_of(item.engine);
  return query;
}

// By Hopper's matrix units, of copies (planning/copied_gradient.h).
std::optional<convt3d::OperatorPlan> of_copies(convt3d::PlanQuery query) {
  query.engine = convt3d::Engine::kWgmma;
  for (convt3d::OperatorPlan& plan : convt3d::candidates(query)) {
    if (std::holds_alternative<convt3d::SeparatePlan>(plan.plan)) return std::move(plan);
  }
  return std::nullopt;
}

}  // namespace

convt3d::Operands operands_of(const Case& item) {
  const bool forward = item.op == Operator::kForward;
  convt3d::Operands operands;
  operands.first = operand(item, item.first_size(), item.layout, *item.first);
  operands.second = operand(item, item.second_size(), item.layout, *item.second);
  if (item.relu && !forward) operands.mask = operand(item, item.output_size(), item.layout, *item.mask);
  operands.result = operand(item, forward ? item.output_size() : item.input_size(), item.result_layout(), *item.result);
  operands.weight = operand(item, item.weight_size(), item.layout, arrangement_of("dense"));
  return operands;
}

const convt3d::DeviceTraits& device_of(const Case& item) {
  const bool hopper = item.wgmma || item.engine == Engine::kWgmma;
  return convt3d::device_of_capability(hopper ? 9 : 8, 0).traits;
}

convt3d::DeviceTraits weight_grad_device(const Case& item) { return some_device(item, {24, 60, 227}); }

std::vector<convt3d::WgmmaPlan> candidates(const Case& item) {
  const bool forward = item.op == Operator::kForward;
  if (item.type == Type::kFloat64 || (!forward && (item.op != Operator::kInputGrad || item.relu))) return {};
  const convt3d::WgmmaProblem problem =
      forward ? convt3d::wgmma_forward(item.problem) : convt3d::wgmma_input_grad(item.problem);
  const int bytes = static_cast<int>(convt3d::element_size(item.data_type()));
  convt3d::Operands operands;
  operands.first = operand(item, item.first_size(), item.layout, *item.first);
  operands.result = operand(item, forward ? item.output_size() : item.input_size(), item.result_layout(), *item.result);
  return wgmma_candidates(problem, {bytes, item.terms()}, operands, device_of(item), forward);
}

convt3d::OperatorPlan plan_of(const Case& item, const convt3d::Operands& operands) {
  const convt3d::PlanQuery query = query_of(item, operands);
  if (item.op == Operator::kBackward && item.engine == Engine::kAuto && item.plan >= 0) {
    const std::vector<convt3d::OperatorPlan> all = convt3d::candidates(query);
    return all[static_cast<std::size_t>(item.plan) % all.size()];
  }
  if (is_gradient(item.op) && item.engine == Engine::kAuto && item.plan >= 0) return of_copies(query).value();
  if ((item.engine != Engine::kWgmma && item.engine != Engine::kMatmul) || item.plan < 0) return choose(query);
  if (item.op == Operator::kWeightGrad || item.engine == Engine::kMatmul) {
    const std::vector<convt3d::OperatorPlan> all = convt3d::candidates(query);
    if (all.empty()) throw std::invalid_argument("the engine has no plan for this problem");
    return all[static_cast<std::size_t>(item.plan) % all.size()];
  }
  const std::vector<convt3d::WgmmaPlan> plans = candidates(item);
  if (item.plan >= static_cast<int>(plans.size())) {
    throw std::invalid_argument("the tensor-core engine has " + std::to_string(plans.size()) +
                                " plans for this problem");
  }
  const convt3d::WgmmaPlan& plan = plans[static_cast<std::size_t>(item.plan)];
  return {plan, plan.workspace_bytes(), {}};
}

bool is_of_copies(const Case& item) { return of_copies(query_of(item, operands_of(item))).has_value(); }

bool has_plan(const Case& item) { return convt3d::choose_if_any(query_of(item, operands_of(item))).has_value(); }

}  // namespace check
