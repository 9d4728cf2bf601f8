// The operators' results in float64, by their definition, and how far a sum of rounded products may be off.
#pragma once

#include <vector>

#include "check/case.h"

namespace check {

struct Expected {
  std::vector<double> value;
  std::vector<double> magnitude;     // sum of the absolute values of what is summed
  double terms;                      // most products in an element
  std::vector<double> further = {};  // what else an element may be off; empty: nothing
};

// All in the order of their indices. `grad` counts where the mask let it through.
Expected expected_output(const Case& item, const std::vector<double>& input, const std::vector<double>& weight,
                         const std::vector<double>& bias);
Expected expected_input_grad(const Case& item, const std::vector<double>& grad, const std::vector<double>& weight);
Expected expected_weight_grad(const Case& item, const std::vector<double>& grad, const std::vector<double>& input);
Expected expected_bias_grad(const Case& item, const std::vector<double>& grad);

// As the tensor cores read float32 of one term: rounded to 11 bits, ties away from zero.
double rounded_to_tf32(double value);

}  // namespace check
