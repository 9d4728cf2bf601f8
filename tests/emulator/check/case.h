// One thing to check: an operator's problem, the tensors' types and strides, the plan. It is one line of text.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/api.h"
#include "problem.h"

namespace check {

enum class Operator { kForward, kInputGrad, kWeightGrad, kBiasGrad };
enum class Type { kFloat64, kFloat32, kTf32, kFloat16, kBFloat16 };
enum class Layout { kNcdhw, kNdhwc };
// How tensors that are read lie in memory.
enum class Striding { kDense, kSlice, kChannelSlice, kExpanded, kPermuted, kMisaligned, kOtherLayout, kMixed };
enum class Engine { kAuto, kHalo, kSimt, kDepthwise };

constexpr int kBestPlan = -1;

struct Case {
  Operator op = Operator::kForward;
  Type type = Type::kFloat32;
  Layout layout = Layout::kNcdhw;  // of the output
  convt3d::Problem problem;
  bool bias = false;
  bool relu = false;  // of gradients: there is a mask
  Striding striding = Striding::kDense;
  Engine engine = Engine::kAuto;
  int plan = kBestPlan;  // among the candidates of the tensor-core engine
  uint64_t seed = 1;     // of the values, of what else is drawn, and of the schedule

  convt3d::DataType data_type() const;
  convt3d::Float32Mode float32_mode() const;
};

std::string to_string(const Case& item);
// Throws std::invalid_argument, which names the token.
Case parse_case(const std::string& line);

Operator parse_operator(const std::string& word);
Type parse_type(const std::string& word);
Engine parse_engine(const std::string& word);

}  // namespace check
