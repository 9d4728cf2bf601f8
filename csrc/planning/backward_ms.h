// What gradients that have a plan each are expected to take together. Knows nothing of torch or CUDA.
#pragma once

#include "core/problem.h"
#include "planning/operator_plan.h"

namespace convt3d {

// Milliseconds of an input gradient, as they are worth beside those of other engines: those of matmul less, as margin.h
// has it where one call is chosen. On an H200 backwards with it took 0.94 of what was expected in the geometric mean,
// those with wgmma 0.99, with mma 1.03.
double input_grad_ms(const OperatorPlan& plan);

// How many times as long as by its cost a gradient of a copy is taken to need, in the copy's place.
double copied_factor(DataType dtype);
// How many times as long as by their own costs two gradients are taken to need, one after the other: costs of ways to
// read operands are off from each other by about as much. `copied`: grad_output is.
double backward_factor(const OperatorPlan& input_grad, const OperatorPlan& weight_grad, bool copied, DataType dtype);

}  // namespace convt3d
