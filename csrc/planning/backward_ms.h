// What gradients that have a plan each are expected to take together. Knows nothing of torch or CUDA.
#pragma once

#include "core/problem.h"
#include "planning/operator_plan.h"

namespace convt3d {

// Milliseconds of an input gradient, as they are worth beside those of other engines. On an H200 0.9 of what is
// expected of matmul was measured in the geometric mean, and 1.0 of other engines'.
double input_grad_ms(const OperatorPlan& plan);

// How many times as long as by their own costs two gradients are taken to need, one after the other: costs of ways to
// read operands are off from each other by about as much. `copied`: grad_output is.
double backward_factor(const OperatorPlan& input_grad, const OperatorPlan& weight_grad, bool copied, DataType dtype);

}  // namespace convt3d
