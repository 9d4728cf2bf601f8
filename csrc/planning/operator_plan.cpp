#include "planning/operator_plan.h"

namespace convt3d {
namespace {

Engine engine_of(const CorrelationPlan&) { return Engine::kSimt; }
Engine engine_of(const WeightGradPlan&) { return Engine::kSimt; }
Engine engine_of(const BiasGradPlan&) { return Engine::kSimt; }
Engine engine_of(const DepthwiseForwardPlan&) { return Engine::kDepthwise; }
Engine engine_of(const DepthwiseTilePlan&) { return Engine::kDepthwise; }
Engine engine_of(const HaloPlan&) { return Engine::kWgmma; }
Engine engine_of(const mma::CorrelationPlan&) { return Engine::kMma; }
Engine engine_of(const mma::WeightGradPlan&) { return Engine::kMma; }

}  // namespace

Engine OperatorPlan::engine() const {
  return std::visit([](const auto& of_engine) { return engine_of(of_engine); }, plan);
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
  }
  return "unknown";
}

std::string to_string(const OperatorPlan& plan) {
  return std::string(engine_name(plan.engine())) + ": " +
         std::visit([](const auto& of_engine) { return to_string(of_engine); }, plan.plan);
}

}  // namespace convt3d
