// A group norm on the current device; its contract is that of kernels/api.h. No CUDA header.
#pragma once

#include "core/call.h"
#include "epilogue/epilogue.h"
#include "norm/plan.h"
#include "norm/vectors.h"

namespace convt3d::norm {

// Beside the tensors. The weight and bias have the type of x, or float32.
struct Arguments {
  ConstVector weight;
  ConstVector bias;
  bool affine_is_float32 = false;
  double slope = 1;  // of the activation behind the norm: 1 is none, 0 a ReLU
  double eps = 0;
};

struct Statistics {
  double* mean;  // [N, groups]
  double* rstd;
};

// result = activation(norm(x)), and the statistics. R is T or float32; the result may be x. `moments`: of x, where
// the epilogue behind it has left them; else they take a pass over x. `workspace` has forward_workspace_bytes().
template <typename T, typename R>
void forward(const Size& size, const Shape& shape, const Plan& plan, const Vectors& vectors, ConstTensor x,
             const EpilogueMoments& moments, const Arguments& arguments, MutableTensor result,
             const Statistics& statistics, void* workspace, Stream stream);

// What forward() computes before it applies the norm: the statistics, and with them the norm of each channel, [n][c],
// for whoever applies it; of types that are summed in float32. Where there are moments, x need not be in memory.
template <typename T>
void channel_norms(const Size& size, const Shape& shape, const Plan& plan, const Vectors& vectors, ConstTensor x,
                   const EpilogueMoments& moments, const Arguments& arguments, const Statistics& statistics,
                   ChannelNorm* norms, void* workspace, Stream stream);

// grad_x of x or, with `relu`, of the argument of the ReLU that x is the output of; and the gradients of weight and
// bias, [C] with stride 1, of their type. Where one of the three is nullptr, what it alone needs is not computed.
template <typename T, typename R>
void backward(const Size& size, const Shape& shape, const Plan& plan, const Vectors& vectors, ConstTensor grad_result,
              ConstTensor x, const Statistics& statistics, const Arguments& arguments, bool relu, MutableTensor grad_x,
              void* grad_weight, void* grad_bias, void* workspace, Stream stream);

}  // namespace convt3d::norm
