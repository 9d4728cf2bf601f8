// Names of the values of traits.
#pragma once

#include <cstdint>
#include <string>

#include "core/call.h"
#include "core/problem.h"

namespace convt3d {

constexpr const char* kStrideNames[] = {"stride_d", "stride_h", "stride_w"};
constexpr const char* kDilationNames[] = {"dilation_d", "dilation_h", "dilation_w"};
constexpr const char* kShiftNames[] = {"shift_d", "shift_h", "shift_w"};

inline std::string yes_no(bool value) { return value ? "yes" : "no"; }
inline std::string one_or_many(int64_t count) { return count > 1 ? "many" : "1"; }
inline std::string one_two_many(int64_t count) { return count > 2 ? "many" : count == 2 ? "2" : "1"; }
// Its number, up to `last`.
inline std::string count_name(int64_t count, int64_t last) { return count > last ? "more" : std::to_string(count); }
// Which signs whole numbers from `least` to `most` have.
inline std::string sign_name(int64_t least, int64_t most) {
  return least < 0 && most > 0 ? "both" : least < 0 ? "below" : most > 0 ? "above" : "0";
}
inline std::string type_name(DataType dtype, Float32Mode mode) {
  switch (dtype) {
    case DataType::kFloat32:
      return mode == Float32Mode::kTf32 ? "tf32" : "fp32";
    case DataType::kFloat64:
      return "fp64";
    case DataType::kFloat16:
      return "fp16";
    case DataType::kBFloat16:
      return "bf16";
  }
  return "unknown";
}

}  // namespace convt3d
