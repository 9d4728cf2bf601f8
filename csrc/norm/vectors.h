// Which tensors of a group norm's call are read and written by vectors, where slots (norm/plan.h) are whole: what
// strides and addresses decide about the kernels' loads and stores. Knows nothing of torch or CUDA.
#pragma once

#include <cstdint>

#include "core/call.h"
#include "core/problem.h"
#include "norm/plan.h"

namespace convt3d::norm {

// Of a forward x and the result, of a backward all but the result.
struct Vectors {
  int32_t phase = 0;  // elements of x's first element past a line of memory
  bool x = false;
  bool result = false;
  bool grad_result = false;
  bool grad_x = false;
};

// Types are those of x and of the norm's result, which its gradient has, too.
Vectors forward_vectors(const Plan& plan, const Size& size, DataType type, DataType result_type, const ConstTensor& x,
                        const MutableTensor& result);
// `grad_x` may be absent.
Vectors backward_vectors(const Plan& plan, const Size& size, DataType type, DataType result_type, const ConstTensor& x,
                         const ConstTensor& grad_result, const MutableTensor& grad_x);

}  // namespace convt3d::norm
