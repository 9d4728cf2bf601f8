// What csrc/ops calls for a group norm behind a convolution; the contract is that of kernels/api.h. The plan does not
// depend on the device, and is cheap to make.
#pragma once

#include "core/call.h"
#include "core/problem.h"
#include "norm/run.h"

namespace convt3d {

// result = activation(norm(x)); the result may be x itself, and statistics may be absent (nullptr). `result_dtype` is
// that of x or float32. `moments`: of x, if the forward has left them.
void group_norm(const norm::Size& size, int64_t groups, const norm::Plan& plan, const norm::Vectors& vectors,
                DataType dtype, DataType result_dtype, ConstTensor x, const EpilogueMoments& moments,
                const norm::Arguments& arguments, MutableTensor result, const norm::Statistics& statistics,
                void* workspace, Stream stream);

// The statistics, which may be absent (nullptr), and the norms of all channels, [n][c], for a second forward that
// applies them in its epilogue or for whoever else does. Not of float64. Where there are moments, only x's size is
// read.
void group_norm_of_channels(const norm::Size& size, int64_t groups, const norm::Plan& plan,
                            const norm::Vectors& vectors, DataType dtype, ConstTensor x, const EpilogueMoments& moments,
                            const norm::Arguments& arguments, const norm::Statistics& statistics, ChannelNorm* norms,
                            void* workspace, Stream stream);

// The gradients of x, or with `relu` of the argument of the ReLU that x is the output of, and of the norm's weight and
// bias, each where it is not nullptr. Positions of grad_result must be equally far apart (norm::has_position_stride).
void group_norm_backward(const norm::Size& size, int64_t groups, const norm::Plan& plan, const norm::Vectors& vectors,
                         DataType dtype, DataType result_dtype, ConstTensor grad_result, ConstTensor x,
                         const norm::Statistics& statistics, const norm::Arguments& arguments, bool relu,
                         MutableTensor grad_x, void* grad_weight, void* grad_bias, void* workspace, Stream stream);

}  // namespace convt3d
