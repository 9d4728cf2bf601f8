// The plan of an operator, whichever engine it is for. Knows nothing of torch or CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "core/channels_copy.h"
#include "core/cost.h"
#include "core/device_traits.h"
#include "core/output_view.h"
#include "engines/depthwise/patch_plan.h"
#include "engines/depthwise/plan.h"
#include "engines/depthwise/tile_plan.h"
#include "engines/matmul/plan.h"
#include "engines/mma/backward/plan.h"
#include "engines/mma/correlation/plan.h"
#include "engines/mma/weight_grad/plan.h"
#include "engines/simt/plan.h"
#include "engines/wgmma/plan/plan.h"
#include "engines/wgmma/weight_grad/plan.h"

namespace convt3d {

struct OperatorPlan;

// The plan of a backward that computes each gradient by a plan of its own (planning/separate_plan.h), or of one
// gradient that reads copies (planning/copied_gradient.h).
struct SeparatePlan {
  std::shared_ptr<const OperatorPlan> input_grad;   // where it is wanted
  std::shared_ptr<const OperatorPlan> weight_grad;  // likewise
  std::shared_ptr<const OperatorPlan> bias_grad;    // where it is wanted and the weight gradient does not have it
  OperandCopy grad_copy;                            // what gradients read instead of grad_output, and of its mask
  OperandCopy input_copy;                           // what the weight gradient reads instead of the input
  int64_t rounds;    // how often equally many images are copied and all gradients but `bias_grad` computed
  int32_t beside;    // multiprocessors of the input gradient, while the weight gradient has the others; 0: one by one
  bool leaves_copy;  // the input gradient reads grad_output as it lies, and leaves the copies to the weight's

  // The weight gradient's plan has the bias's, too.
  bool sums_bias() const;
  // The plan of the only gradient, if there is one alone.
  const OperatorPlan* alone() const;

  // The workspace: these copies, then what the gradients of bias and input need, and that of the weight, which has
  // the input gradient's where that is over when it begins.
  int64_t input_copy_offset() const;
  int64_t bias_grad_offset() const;
  int64_t input_grad_offset() const;
  int64_t weight_grad_offset() const;
  int64_t workspace_bytes() const;
};

// The first three are of the general engine.
using EnginePlan = std::variant<CorrelationPlan, WeightGradPlan, BiasGradPlan, DepthwiseForwardPlan, DepthwiseTilePlan,
                                DepthwisePatchPlan, WgmmaPlan, mma::CorrelationPlan, mma::WeightGradPlan,
                                mma::BackwardPlan, WgmmaWeightGradPlan, MatmulPlan, SeparatePlan>;

struct OperatorPlan {
  EnginePlan plan;
  int64_t workspace_bytes = 0;
  Cost cost;  // on the device that it was chosen for
  // Of a forward with moment_parts(): what is expected where its epilogue gathers moments and stores nothing.
  double unstored_ms = 0;
  // Of operators that are computed as those of this view of the outputs: all else is planned for the view's problem,
  // but for the bias's gradient.
  std::optional<OutputView> view{};

  // Of a weight gradient: it has the bias's, too.
  bool sums_bias() const;
  // None of a plan that leaves each of several gradients to its own engine.
  std::optional<Engine> engine() const;
  // Of gradients: joins_weight() of core/output_view.h, of the view or of a gradient's own.
  bool joins_weight() const;
};

// Of a forward: parts of each image and output channel that its epilogue can leave moments of (epilogue/epilogue.h); 0:
// none, as its engine gathers none or not by this plan.
int64_t moment_parts(const OperatorPlan& plan);

const char* engine_name(Engine engine);
// "engine: plan"; "separate: who computes which gradient" where there is no one engine.
std::string to_string(const OperatorPlan& plan);

}  // namespace convt3d
