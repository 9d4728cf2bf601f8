// Forward and gradients on the engine on mma.sync, by whichever of its plans: for measuring, from Python through
// ctypes. Not what operators call.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "core/operands.h"
#include "device/current_device.h"
#include "device/launch.cuh"
#include "engines/mma/run.h"
#include "engines/mma/run_weight_grad.h"
#include "planning/flat_call.h"

namespace convt3d {
namespace {

// What the array of numbers holds, in this order.
struct ForcedCall {
  Problem problem;
  struct Tensor {
    int64_t stride[5];
    int64_t address;

    ConstTensor get() const {
      ConstTensor tensor;
      std::copy(stride, stride + 5, tensor.stride.begin());
      tensor.data = reinterpret_cast<const void*>(address);
      return tensor;
    }
  } first, second, mask, bias, result;
  int64_t operation;  // forward, input gradient, weight gradient
  int64_t dtype;      // DataType
  int64_t tf32;
  int64_t relu;
  int64_t plan;  // its place among the candidates in the order of their costs
  int64_t workspace;
  int64_t workspace_bytes;
  int64_t stream;
};

constexpr int64_t kInputGrad = 1;
constexpr int64_t kWeightGrad = 2;

int64_t workspace_bytes(const mma::CorrelationPlan& plan) { return plan.packed_bytes; }
int64_t workspace_bytes(const mma::WeightGradPlan& plan) { return plan.workspace_bytes(); }

template <typename T>
void run_forced(const ForcedCall& call, const mma::WeightGradPlan& plan) {
  const MutableTensor result{reinterpret_cast<void*>(call.result.address), call.result.get().stride};
  mma::weight_grad<T>(call.problem, plan, call.first.get(), call.mask.get(), call.second.get(), result,
                      reinterpret_cast<void*>(call.workspace), reinterpret_cast<void*>(call.stream));
}

template <typename T>
void run_forced(const ForcedCall& call, const mma::CorrelationPlan& plan) {
  auto* const workspace = reinterpret_cast<void*>(call.workspace);
  auto* const stream = reinterpret_cast<void*>(call.stream);
  const MutableTensor result{reinterpret_cast<void*>(call.result.address), call.result.get().stride};
  if (call.operation == kInputGrad) {
    return mma::input_grad<T>(call.problem, plan, call.first.get(), call.mask.get(), call.second.get(), result,
                              workspace, stream);
  }
  Epilogue epilogue;
  epilogue.bias = {call.bias.get().data, call.bias.stride[0]};
  if (call.relu != 0) epilogue.activation = Activation::kRelu;
  mma::forward<T>(call.problem, plan, call.first.get(), call.second.get(), epilogue, result, workspace, stream);
}

using AnyPlan = std::variant<mma::CorrelationPlan, mma::WeightGradPlan>;

// Of the candidates in the order of their costs.
template <typename Plan>
Plan choose_plan(std::vector<Plan> plans, int64_t place) {
  if (place < 0 || place >= static_cast<int64_t>(plans.size())) {
    throw std::runtime_error(std::to_string(plans.size()) + " plans");
  }
  std::stable_sort(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) { return a.cost_ms < b.cost_ms; });
  return plans[static_cast<size_t>(place)];
}

AnyPlan plan_of(const ForcedCall& call) {
  const auto dtype = static_cast<DataType>(call.dtype);
  const int terms = dtype == DataType::kFloat32 && call.tf32 == 0 ? 2 : 1;
  const DeviceTraits& device = current_device().traits;
  const MutableTensor result{reinterpret_cast<void*>(call.result.address), call.result.get().stride};
  const Operands operands{operand_traits(call.first.get()), operand_traits(call.second.get()),
                          operand_traits(call.mask.get()), operand_traits(result)};
  if (call.operation == kWeightGrad) {
    return choose_plan(
        mma::weight_grad_candidates(call.problem, dtype, terms, mma::grad_layouts(call.problem, dtype, operands),
                                    {device.shared_bytes, device.multiprocessors}),
        call.plan);
  }
  const bool forward = call.operation != kInputGrad;
  return choose_plan(
      mma::correlation_candidates(call.problem, forward ? mma::Correlation::kForward : mma::Correlation::kInputGrad,
                                  dtype, terms, {operands.first, operands.mask, operands.result},
                                  {device.shared_bytes, device.multiprocessors}),
      call.plan);
}

int64_t force(const ForcedCall& call, std::string& text) {
  // What was asked last: who measures asks again and again.
  static ForcedCall known{};
  static AnyPlan any{};
  if (std::memcmp(&call, &known, offsetof(ForcedCall, workspace)) != 0) {
    known = {};
    any = plan_of(call);
    known = call;
  }
  return std::visit(
      [&](const auto& plan) -> int64_t {
        text = to_string(plan) + " cost_ms=" + std::to_string(plan.cost_ms);
        const int64_t bytes = workspace_bytes(plan);
        if (call.workspace_bytes < bytes) return bytes;
        switch (static_cast<DataType>(call.dtype)) {
          case DataType::kFloat32:
            run_forced<float>(call, plan);
            break;
          case DataType::kFloat16:
            run_forced<__half>(call, plan);
            break;
          case DataType::kBFloat16:
            run_forced<__nv_bfloat16>(call, plan);
            break;
          case DataType::kFloat64:
            return -1;
        }
        return bytes;
      },
      any);
}

}  // namespace
}  // namespace convt3d

// `numbers`: a ForcedCall. Returns the bytes of the workspace that the call needs, and runs it where it has them; -1
// where it fails. `text`: the plan, or why.
extern "C" __attribute__((visibility("default"))) int64_t convt3d_force_mma(const int64_t* numbers, char* text,
                                                                            int capacity) {
  std::string said;
  int64_t result = -1;
  try {
    result = convt3d::force(*reinterpret_cast<const convt3d::ForcedCall*>(numbers), said);
  } catch (const std::exception& error) {
    said = error.what();
  }
  std::snprintf(text, static_cast<size_t>(capacity), "%s", said.c_str());
  return result;
}
