// Which engine computes a call, and by which plan. Knows nothing of torch or CUDA.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/call.h"
#include "core/channels_copy.h"
#include "core/device_traits.h"
#include "core/operands.h"
#include "core/operator.h"
#include "core/problem.h"
#include "planning/norm_task.h"
#include "planning/operator_plan.h"

namespace convt3d {

// grad_output as a call has it, where gradients are planned for a view of it.
struct WholeGradOutput {
  Problem problem;
  OperandTraits tensor;
  OperandTraits mask;
  bool is_in_view;  // all of it
};

// Everything that a choice looks at.
struct PlanQuery {
  Operator op;
  Problem problem;  // of the bias gradient only the output's size counts
  DataType dtype;
  Float32Mode mode;
  Operands operands;
  DeviceTraits device;
  std::optional<Engine> engine;            // the only one that is asked; none: all are
  int32_t candidate = 0;                   // of candidates()
  int64_t most_copied = kMostCopiedBytes;  // by what serves several gradients
  bool sums_bias = false;                  // of the weight gradient: by a plan that has the bias's, too
  bool is_part = false;                    // of a plan of several gradients or rounds, which has the copies
  std::optional<WholeGradOutput> whole{};  // set by choose() and candidates(), where `problem` is a view's
  std::optional<NormTask> norm{};          // behind a forward; its `keeps_input` does not count
};

// Numbers that stand for one of float32 in the tensor cores: TF32, or float32 proper as a high and a low one.
inline int terms_of(const PlanQuery& query) {
  return query.dtype == DataType::kFloat32 && query.mode == Float32Mode::kIeee ? 2 : 1;
}

// Whether the bias's gradient, which is of all outputs, can be taken from what other gradients read.
inline bool sees_all_outputs(const PlanQuery& query) { return !query.whole || query.whole->is_in_view; }

// The cheapest of the plans that the engines offer or, of the only engine that is asked, the candidate that is asked
// for. Throws std::invalid_argument where that engine has none.
OperatorPlan choose(const PlanQuery& query);
// The same, or none where no engine has a plan.
std::optional<OperatorPlan> choose_if_any(const PlanQuery& query);
// Every plan that the only engine that is asked has for a call: first the one that it offers, then the others in the
// order of their costs. Where all are asked, of a backward alone: first the one that is chosen, then the ways to
// compute its gradients one by one. For tests and measurements: a call searches less.
std::vector<OperatorPlan> candidates(const PlanQuery& query);

}  // namespace convt3d
