// What is computed: the forward, or the gradient of one of its arguments.
#pragma once

namespace convt3d {

enum class Operator : int { kForward, kInputGrad, kWeightGrad, kBiasGrad };

}  // namespace convt3d
