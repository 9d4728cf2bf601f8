// Moments as an epilogue would leave them for a norm.
#pragma once

#include <vector>

#include "check/tensor.h"
#include "epilogue/epilogue.h"

namespace check {

// Of values in the order of their indices. A part has any positions, or none, and a pivot near their mean.
void leave_moments(const Size5& size, const std::vector<double>& values, Random& random,
                   const convt3d::EpilogueMoments& moments);

}  // namespace check
