#include "check/plans.h"

#include <optional>

#include "check/tensor.h"
#include "core/devices.h"
#include "engines/wgmma/plan/problem.h"
#include "planning/operator_plan.h"

namespace check {
namespace {

// Of the output.
bool channels_are_contiguous(const Case& item) {
  const Size5 size = item.output_size();
  return item.result_layout() == Layout::kNdhwc || size[2] * size[3] * size[4] == 1;
}

convt3d::OperandTraits operand(const Case& item, const Size5& size, Layout layout, const Arrangement& arrangement) {
  const Place place = place_of(size, layout, arrangement);
  const auto bytes = convt3d::element_size(item.data_type());
  return {place.stride, static_cast<int32_t>(place.first * bytes % convt3d::kAddressModulus), true};
}

}  // namespace

convt3d::Operands gradient_operands(const Case& item) {
  convt3d::Operands operands;
  operands.first = operand(item, item.output_size(), item.layout, *item.first);
  operands.second = operand(item, item.input_size(), item.layout, *item.second);
  if (item.relu) operands.mask = operand(item, item.output_size(), item.layout, *item.mask);
  operands.result = operand(item, item.input_size(), item.result_layout(), *item.result);
  return operands;
}

const convt3d::DeviceTraits& device_of(const Case& item) {
  const bool hopper = item.wgmma || item.engine == Engine::kWgmma;
  return convt3d::device_of_capability(hopper ? 9 : 8, 0).traits;
}

std::vector<convt3d::WgmmaPlan> candidates(const Case& item) {
  const bool forward = item.op == Operator::kForward;
  if (item.type == Type::kFloat64 || (!forward && (item.op != Operator::kInputGrad || item.relu))) return {};
  const convt3d::WgmmaProblem problem =
      forward ? convt3d::wgmma_forward(item.problem) : convt3d::wgmma_input_grad(item.problem);
  const int bytes = static_cast<int>(convt3d::element_size(item.data_type()));
  convt3d::Operands operands;
  operands.first = operand(item, item.first_size(), item.layout, *item.first);
  operands.result = operand(item, forward ? item.output_size() : item.input_size(), item.result_layout(), *item.result);
  return wgmma_candidates(problem, {bytes, item.type == Type::kFloat32 ? 2 : 1}, operands, device_of(item), forward);
}

bool has_wgmma_weight_grad_plan(const Case& item) {
  return plan_wgmma_weight_grad(item.problem, item.data_type(), gradient_operands(item), device_of(item)).has_value();
}

bool has_depthwise_plan(const Case& item) {
  const auto op = static_cast<convt3d::Operator>(item.op);
  if (plan_depthwise_tiles(op, item.problem, item.data_type(), {})) return true;
  const int bytes = static_cast<int>(convt3d::element_size(item.data_type()));
  return item.op == Operator::kForward &&
         plan_depthwise_kernel(item.problem, bytes, channels_are_contiguous(item), true).has_value();
}

}  // namespace check
