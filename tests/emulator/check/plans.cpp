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

}  // namespace

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
  const auto operand = [&](const Size5& size, Layout layout, const Arrangement& arrangement) {
    const Place place = place_of(size, layout, arrangement);
    return convt3d::OperandTraits{place.stride, static_cast<int32_t>(place.first * bytes % convt3d::kAddressModulus),
                                  true};
  };
  convt3d::Operands operands;
  operands.first = operand(item.first_size(), item.layout, *item.first);
  operands.result = operand(forward ? item.output_size() : item.input_size(), item.result_layout(), *item.result);
  return wgmma_candidates(problem, {bytes, item.type == Type::kFloat32 ? 2 : 1}, operands, device_of(item), forward);
}

bool has_depthwise_plan(const Case& item) {
  const auto op = static_cast<convt3d::Operator>(item.op);
  if (plan_depthwise_tiles(op, item.problem, item.data_type(), {})) return true;
  const int bytes = static_cast<int>(convt3d::element_size(item.data_type()));
  return item.op == Operator::kForward &&
         plan_depthwise_kernel(item.problem, bytes, channels_are_contiguous(item), true).has_value();
}

}  // namespace check
