#include "planning/operator_plan.h"

#include <algorithm>

#include "core/integer.h"

namespace convt3d {
namespace {

using OfEngine = std::optional<Engine>;
OfEngine engine_of(const CorrelationPlan&) { return Engine::kSimt; }
OfEngine engine_of(const WeightGradPlan&) { return Engine::kSimt; }
OfEngine engine_of(const BiasGradPlan&) { return Engine::kSimt; }
OfEngine engine_of(const DepthwiseForwardPlan&) { return Engine::kDepthwise; }
OfEngine engine_of(const DepthwiseTilePlan&) { return Engine::kDepthwise; }
OfEngine engine_of(const DepthwisePatchPlan&) { return Engine::kDepthwise; }
OfEngine engine_of(const WgmmaPlan&) { return Engine::kWgmma; }
OfEngine engine_of(const WgmmaWeightGradPlan&) { return Engine::kWgmma; }
OfEngine engine_of(const mma::CorrelationPlan&) { return Engine::kMma; }
OfEngine engine_of(const mma::WeightGradPlan&) { return Engine::kMma; }
OfEngine engine_of(const mma::BackwardPlan&) { return Engine::kMma; }
OfEngine engine_of(const MatmulPlan&) { return Engine::kMatmul; }
OfEngine engine_of(const SeparatePlan& plan) { return plan.alone() != nullptr ? plan.alone()->engine() : std::nullopt; }

template <typename Plan>
int64_t parts_of(const Plan&) {
  return 0;
}
int64_t parts_of(const WgmmaPlan& plan) { return plan.moment_parts(); }
int64_t parts_of(const mma::CorrelationPlan& plan) { return plan.moment_parts(); }

template <typename Plan>
bool has_bias(const Plan&) {
  return false;
}
bool has_bias(const mma::WeightGradPlan& plan) { return plan.has_bias(); }
bool has_bias(const WgmmaWeightGradPlan& plan) { return plan.has_bias(); }
bool has_bias(const DepthwisePatchPlan& plan) { return plan.has_bias(); }
bool has_bias(const DepthwiseTilePlan& plan) { return plan.has_bias(); }

std::string copies_of(const SeparatePlan& plan) {
  if (!plan.grad_copy.exists) return "";
  return std::string(plan.input_copy.exists ? " copied=both" : " copied=grad_output") +
         " rounds=" + std::to_string(plan.rounds);
}

std::string to_string(const SeparatePlan& plan) {
  std::string text;
  const auto add = [&](const char* name, const std::shared_ptr<const OperatorPlan>& part) {
    if (part) text += (text.empty() ? "" : " ") + std::string(name) + "=" + engine_name(*part->engine());
  };
  add("input_grad", plan.input_grad);
  add("weight_grad", plan.weight_grad);
  add("bias_grad", plan.bias_grad);
  if (plan.sums_bias()) text += " with_bias_grad";
  text += copies_of(plan);
  if (plan.leaves_copy) text += " for=weight_grad";
  return text + (plan.beside > 0 ? " beside=" + std::to_string(plan.beside) : "");
}

}  // namespace

const OperatorPlan* SeparatePlan::alone() const {
  if (bias_grad) return nullptr;
  return !weight_grad ? input_grad.get() : !input_grad ? weight_grad.get() : nullptr;
}
bool SeparatePlan::sums_bias() const { return weight_grad && weight_grad->sums_bias(); }
int64_t SeparatePlan::input_copy_offset() const { return workspace_part(grad_copy.bytes()); }
int64_t SeparatePlan::bias_grad_offset() const { return workspace_part(input_copy_offset() + input_copy.bytes()); }
int64_t SeparatePlan::input_grad_offset() const {
  return bias_grad_offset() + (bias_grad ? workspace_part(bias_grad->workspace_bytes) : 0);
}
int64_t SeparatePlan::weight_grad_offset() const {
  const bool apart = input_grad && (beside > 0 || rounds > 1);
  return input_grad_offset() + (apart ? workspace_part(input_grad->workspace_bytes) : 0);
}
int64_t SeparatePlan::workspace_bytes() const {
  return std::max(input_grad_offset() + (input_grad ? input_grad->workspace_bytes : 0),
                  weight_grad_offset() + (weight_grad ? weight_grad->workspace_bytes : 0));
}

bool OperatorPlan::sums_bias() const {
  return std::visit([](const auto& of_engine) { return has_bias(of_engine); }, plan);
}

std::optional<Engine> OperatorPlan::engine() const {
  return std::visit([](const auto& of_engine) { return engine_of(of_engine); }, plan);
}

bool OperatorPlan::joins_weight() const {
  if (view && view->joins_weight()) return true;
  const auto* const separate = std::get_if<SeparatePlan>(&plan);
  const auto joins = [](const std::shared_ptr<const OperatorPlan>& part) { return part && part->joins_weight(); };
  return separate != nullptr && (joins(separate->input_grad) || joins(separate->weight_grad));
}

int64_t moment_parts(const OperatorPlan& plan) {
  if (plan.view) return 0;  // its channels are not the layer's
  return std::visit([](const auto& of_engine) { return parts_of(of_engine); }, plan.plan);
}

const char* engine_name(Engine engine) {
  switch (engine) {
    case Engine::kSimt:
      return "simt";
    case Engine::kDepthwise:
      return "depthwise";
    case Engine::kWgmma:
      return "halo_wgmma";
    case Engine::kMma:
      return "mma";
    case Engine::kMatmul:
      return "matmul";
  }
  return "unknown";
}

std::string to_string(const OperatorPlan& plan) {
  const auto* const separate = std::get_if<SeparatePlan>(&plan.plan);
  const OperatorPlan* const alone = separate != nullptr ? separate->alone() : nullptr;
  if (alone != nullptr) return to_string(*alone) + copies_of(*separate);
  const std::optional<Engine> engine = plan.engine();
  std::string text = std::string(engine ? engine_name(*engine) : "separate") + ": " +
                     std::visit([](const auto& of_engine) { return to_string(of_engine); }, plan.plan);
  if (plan.view) {
    const auto [depth, height, width] = plan.view->step;
    const bool channels = plan.view->width_channels;
    if (depth * height * (channels ? 1 : width) > 1) {
      text +=
          " every=" + std::to_string(depth) + "x" + std::to_string(height) + "x" + std::to_string(channels ? 1 : width);
    }
    if (channels) text += " width_taps=channels";
  }
  return text;
}

}  // namespace convt3d
