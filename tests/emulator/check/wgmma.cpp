#include "check/wgmma.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <vector>

#include "check/plans.h"
#include "engines/wgmma/weight_grad/run.h"

namespace check {

std::optional<convt3d::WgmmaWeightGradPlan> plan_with_bias(const Case& item, const convt3d::Operands& operands) {
  const std::vector<convt3d::WgmmaWeightGradPlan> plans = wgmma_weight_grad_candidates(
      item.problem, item.data_type(), item.terms(), operands, weight_grad_device(item), true);
  if (plans.empty()) return std::nullopt;
  return plans[item.plan < 0 ? 0 : static_cast<std::size_t>(item.plan) % plans.size()];
}

void wgmma_weight_grad(const Case& item, const convt3d::WgmmaWeightGradPlan& plan, convt3d::ConstTensor grad_output,
                       convt3d::ConstTensor input, const convt3d::SummedGrads& grads, void* workspace) {
  if (item.data_type() == convt3d::DataType::kFloat32) {
    convt3d::wgmma::weight_grad<float>(item.problem, plan, grad_output, input, grads, workspace, nullptr);
  } else if (item.type == Type::kFloat16) {
    convt3d::wgmma::weight_grad<__half>(item.problem, plan, grad_output, input, grads, workspace, nullptr);
  } else {
    convt3d::wgmma::weight_grad<__nv_bfloat16>(item.problem, plan, grad_output, input, grads, workspace, nullptr);
  }
}

}  // namespace check
