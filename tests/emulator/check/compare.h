// Whether a result is what it has to be.
#pragma once

#include <string>

#include "check/reference.h"
#include "check/tensor.h"
#include "core/problem.h"

namespace check {

// What an element may be off: its rounding, and what a sum of so many terms accumulates at random (as in
// tests/reference.py). Sums of integers are exact.
struct Bounds {
  bool exact;
  convt3d::DataType type;
  bool split;  // float32 proper in two terms on the tensor cores: the product of the low ones is left out

  double of(double value, double magnitude, double terms) const;
};

// What is wrong, in words; empty where nothing is.
std::string compare(const Tensor& tensor, const Expected& expected, const Bounds& bounds);

}  // namespace check
