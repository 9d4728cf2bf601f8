// One thing to check: an operator's problem, the tensors' types and strides, the plan. It is one line of text.
#pragma once

#include <cstdint>
#include <string>

#include "check/arrangement.h"
#include "core/call.h"
#include "core/problem.h"

namespace check {

// In the order of core/operator.h; `bias` of a case says whether a backward sums that gradient, too.
enum class Operator { kForward, kInputGrad, kWeightGrad, kBiasGrad, kBackward };
enum class Type { kFloat64, kFloat32, kTf32, kFloat16, kBFloat16 };
enum class Engine { kAuto, kWgmma, kSimt, kDepthwise, kMma, kMatmul };

constexpr int kBestPlan = -1;

struct Case {
  Operator op = Operator::kForward;
  Type type = Type::kFloat32;
  Layout layout = Layout::kNcdhw;  // of the operands
  convt3d::Problem problem;
  bool bias = false;
  bool relu = false;  // of gradients: there is a mask
  // The first operand is the input or grad_output, the second the weight or, of the weight gradient
  // and of a backward, the input.
  const Arrangement* first = &arrangements()[0];
  const Arrangement* second = &arrangements()[0];
  const Arrangement* mask = &arrangements()[0];
  const Arrangement* result = &arrangements()[0];  // dense, or at an offset
  bool wgmma = true;                               // the device has it
  Engine engine = Engine::kAuto;
  int plan = kBestPlan;  // among the candidates of an engine on tensor cores
  uint64_t seed = 1;     // of the values, of what else is drawn, and of the schedule

  Size5 input_size() const;
  Size5 weight_size() const;
  Size5 output_size() const;
  Size5 first_size() const { return op == Operator::kForward ? input_size() : output_size(); }
  Size5 second_size() const {
    return op == Operator::kWeightGrad || op == Operator::kBackward ? input_size() : weight_size();
  }
  // By the operators' rule.
  Layout result_layout() const;
  convt3d::DataType data_type() const;
  convt3d::Float32Mode float32_mode() const;
  int terms() const;  // of an element on the tensor cores
};

std::string to_string(const Case& item);
// Throws std::invalid_argument, which names the token.
Case parse_case(const std::string& line);

Operator parse_operator(const std::string& word);
Type parse_type(const std::string& word);
Engine parse_engine(const std::string& word);

}  // namespace check
