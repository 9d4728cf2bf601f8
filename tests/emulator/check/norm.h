// Group norms on the emulated device, compared with the definition in float64.
#pragma once

#include <cstdint>
#include <string>

#include "check/arrangement.h"
#include "check/case.h"
#include "check/run.h"

namespace check {

enum class NormValues { kNormal, kLargeMean, kOutlierFirst, kConstant };

// One line of text, as a Case is.
struct NormCase {
  bool backward = false;
  Type type = Type::kFloat32;
  bool float32_result = false;  // of 16-bit types
  bool float32_affine = false;
  Layout layout = Layout::kNcdhw;
  Size5 size{1, 1, 1, 1, 1};
  int64_t groups = 1;
  bool weight = true;
  bool bias = true;
  bool relu = false;  // before the norm
  double slope = 1;   // of the activation behind it
  bool in_place = false;
  NormValues values = NormValues::kNormal;
  const Arrangement* input = &arrangements()[0];  // dense, or at an offset
  const Arrangement* grad = &arrangements()[0];
  uint64_t seed = 1;

  convt3d::DataType data_type() const;
  convt3d::DataType result_type() const;
  convt3d::DataType affine_type() const;
};

std::string to_string(const NormCase& item);
// Throws std::invalid_argument, which names the token.
NormCase parse_norm_case(const std::string& line);
NormCase draw_norm_case(uint64_t seed);

Outcome run_norm(const NormCase& item);

}  // namespace check
