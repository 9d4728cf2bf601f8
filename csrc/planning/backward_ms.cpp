#include "planning/backward_ms.h"

#include <variant>

namespace convt3d {
namespace {

// Of few values that were tried, the one by which the ways that were measured are chosen best.
constexpr double kMatmul = 0.92;
// Of 16 bits where grad_output is copied; seen on an H100 and, where mma's input gradient reads the copy, on an H200.
constexpr double kCopied = 1.05;
constexpr double kCopiedForMma = 1.1;
// Weight gradients from channel rows of 32 bits, which copies compete with there, took longer than expected.
constexpr double kChannelRows = 1.04;
// Of weight gradients that have the bias's, which take that much more; likewise. Depthwise plans count it themselves.
constexpr double kSummedBias = 1.05;

}  // namespace

double input_grad_ms(const OperatorPlan& plan) {
  return plan.cost.ms * (plan.engine() == Engine::kMatmul ? kMatmul : 1);
}

double copied_factor(DataType dtype) { return element_size(dtype) == 2 ? kCopied : 1; }

double backward_factor(const OperatorPlan& input_grad, const OperatorPlan& weight_grad, bool copied, DataType dtype) {
  double factor = 1;
  if (copied && element_size(dtype) == 2) {
    factor *= input_grad.engine() == Engine::kMma ? kCopiedForMma : copied_factor(dtype);
  }
  const auto* const of_mma = std::get_if<mma::WeightGradPlan>(&weight_grad.plan);
  if (of_mma != nullptr && has_channel_rows(of_mma->layouts.grad)) factor *= kChannelRows;
  if (weight_grad.sums_bias() && weight_grad.engine() != Engine::kDepthwise) factor *= kSummedBias;
  return factor;
}

}  // namespace convt3d
