// What becomes of a sum on its way to memory, as data: one description from csrc/ops to the kernel. The bias is added,
// then the activation taken, then the value is rounded, once. Knows nothing of torch or CUDA.
//
// What else an epilogue is to do joins this struct, and nothing between csrc/ops and the kernels changes: a parameter
// of an activation, such as a slope, stands beside it, and so do the sums that a norm behind the operator needs.
#pragma once

#include "core/call.h"

namespace convt3d {

enum class Activation : int { kNone, kRelu };

struct Epilogue {
  ConstVector bias;  // of the output channels; may be absent
  Activation activation = Activation::kNone;
};

}  // namespace convt3d
