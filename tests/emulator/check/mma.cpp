#include "check/mma.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <stdexcept>

#include "check/plans.h"
#include "check/tensor.h"
#include "core/devices.h"
#include "engines/mma/correlation/run.h"
#include "engines/mma/weight_grad/run.h"

namespace check {
namespace {

constexpr int64_t kMostBlocks = 48;

template <typename Function>
void with_type(const Case& item, Function&& function) {
  switch (item.data_type()) {
    case convt3d::DataType::kFloat32:
      return function(float());
    case convt3d::DataType::kFloat16:
      return function(__half());
    case convt3d::DataType::kBFloat16:
      return function(__nv_bfloat16());
    case convt3d::DataType::kFloat64:
      break;
  }
  throw std::invalid_argument("the engine on mma.sync has no float64");
}

// Of an architecture or another, by the seed.
convt3d::DeviceTraits some_device(const Case& item) {
  Random random(item.seed);
  constexpr int64_t kSharedKilobytes[] = {99, 163, 227};
  constexpr int64_t kMultiprocessors[] = {2, 20, 132};
  convt3d::DeviceTraits device = convt3d::fitted_device();
  device.shared_bytes = static_cast<int32_t>(kSharedKilobytes[between(random, 0, 2)] * 1024);
  device.multiprocessors = static_cast<int32_t>(kMultiprocessors[between(random, 0, 2)]);
  return device;
}

// Bytes of copies: few, so that they are portion after portion, or as many as ever.
int64_t most_copied(const Case& item) {
  Random random(item.seed + 1);
  constexpr int64_t kBytes[] = {1 << 10, 1 << 13, 1 << 16, convt3d::kMostCopiedBytes};
  return kBytes[between(random, 0, 3)];
}

std::vector<convt3d::mma::BackwardPlan> backward_plans(const Case& item, const convt3d::Operands& operands) {
  return convt3d::mma::backward_candidates(item.problem, item.data_type(), item.terms(), operands, item.bias,
                                           some_device(item));
}

}  // namespace

convt3d::mma::CorrelationPlan mma_plan(const Case& item, const convt3d::ConstTensor& source,
                                       const convt3d::ConstTensor& mask, const convt3d::MutableTensor& destination) {
  using namespace convt3d::mma;
  Random random(item.seed);
  constexpr int kCapabilities[][2] = {{8, 0}, {8, 9}, {9, 0}};
  constexpr int kMultiprocessors[] = {1, 5, 30, 108};
  const auto& capability = kCapabilities[between(random, 0, 2)];
  convt3d::DeviceTraits device = convt3d::device_of_capability(capability[0], capability[1]).traits;
  device.multiprocessors = kMultiprocessors[between(random, 0, 3)];
  const bool forward = item.op == Operator::kForward;
  std::vector<CorrelationPlan> plans = correlation_candidates(
      item.problem, forward ? Correlation::kForward : Correlation::kInputGrad, item.data_type(), item.terms(),
      {operand_traits(source), operand_traits(mask), operand_traits(destination)}, device, most_copied(item));
  if (plans.empty()) throw std::invalid_argument("the engine on mma.sync has no plan for this problem");
  const auto best =
      *std::min_element(plans.begin(), plans.end(),
                        [](const CorrelationPlan& a, const CorrelationPlan& b) { return a.cost_ms < b.cost_ms; });
  if (item.plan < 0) return best;
  const auto end = std::remove_if(plans.begin(), plans.end(), [](const CorrelationPlan& plan) {
    return plan.blocks() * portion_count(plan.portions, plan.boxes) > kMostBlocks;
  });
  if (end == plans.begin()) return best;
  return plans[static_cast<std::size_t>(item.plan) % static_cast<std::size_t>(end - plans.begin())];
}

bool may_have_mma_plan(const Case& item) {
  if (item.op == Operator::kBackward) return !backward_plans(item, operands_of(item)).empty();
  if (item.op == Operator::kWeightGrad) return true;
  for (std::size_t i = 0; i < 3; ++i) {
    if (item.problem.kernel_size[i] > convt3d::mma::kMostAxisTaps) return false;
    if (item.op == Operator::kForward && item.problem.stride[i] > convt3d::mma::kMostResidues) return false;
  }
  return true;
}

void mma_forward(const Case& item, const convt3d::mma::CorrelationPlan& plan, convt3d::ConstTensor input,
                 convt3d::ConstTensor weight, const convt3d::Epilogue& epilogue, convt3d::MutableTensor output,
                 void* workspace) {
  with_type(item, [&](auto type) {
    convt3d::mma::forward<decltype(type)>(item.problem, plan, input, weight, epilogue, output, workspace, nullptr);
  });
}

void mma_input_grad(const Case& item, const convt3d::mma::CorrelationPlan& plan, convt3d::ConstTensor grad_output,
                    convt3d::ConstTensor relu_output, convt3d::ConstTensor weight, convt3d::MutableTensor grad_input,
                    void* workspace) {
  with_type(item, [&](auto type) {
    convt3d::mma::input_grad<decltype(type)>(item.problem, plan, grad_output, relu_output, weight, grad_input,
                                             workspace, nullptr);
  });
}

convt3d::mma::WeightGradPlan mma_weight_grad_plan(const Case& item, const convt3d::ConstTensor& grad_output,
                                                  const convt3d::ConstTensor& relu_output,
                                                  const convt3d::ConstTensor& input) {
  using namespace convt3d::mma;
  const convt3d::DeviceTraits device = some_device(item);
  const convt3d::Operands operands = {
      operand_traits(grad_output), operand_traits(input), operand_traits(relu_output), {}};
  std::vector<WeightGradPlan> plans =
      weight_grad_candidates(item.problem, item.data_type(), item.terms(), operands, device, most_copied(item));
  // Of many portions, each has its blocks.
  const auto end = std::remove_if(plans.begin(), plans.end(), [](const WeightGradPlan& plan) {
    const int64_t portions = portion_count(plan.portions, plan.boxes);
    return portions > 1 && portions * plan.tiles() * plan.splits > kMostBlocks;
  });
  plans.erase(end, plans.end());
  if (plans.empty()) throw std::invalid_argument("the engine on mma.sync has no plan for this problem");
  return plans[item.plan < 0 ? 0 : static_cast<std::size_t>(item.plan) % plans.size()];
}

void mma_weight_grad(const Case& item, const convt3d::mma::WeightGradPlan& plan, convt3d::ConstTensor grad_output,
                     convt3d::ConstTensor relu_output, convt3d::ConstTensor input, convt3d::MutableTensor grad_weight,
                     void* workspace) {
  with_type(item, [&](auto type) {
    convt3d::mma::weight_grad<decltype(type)>(item.problem, plan, grad_output, relu_output, input, {grad_weight},
                                              workspace, nullptr);
  });
}

convt3d::OperatorPlan mma_backward_plan(const Case& item, const convt3d::Operands& operands) {
  const std::vector<convt3d::mma::BackwardPlan> plans = backward_plans(item, operands);
  if (plans.empty()) throw std::invalid_argument("the engine on mma.sync has no plan for this problem");
  const auto& plan = plans[item.plan < 0 ? 0 : static_cast<std::size_t>(item.plan) % plans.size()];
  return {plan, plan.workspace_bytes(), {}};
}

}  // namespace check
