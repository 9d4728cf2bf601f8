// Input gradients on the forward's kernels. Of a layer without strides the input gradient is a transposed convolution,
// too: of grad_output, by the weight with its channels exchanged and its taps in the opposite order. Along an axis,
// with K = dilation * (kernel - 1):
//
//     grad_input[u] = sum over taps t of grad_output[u + dilation * t - padding] * weight[t]
//                   = conv_transpose(grad_output, weight[kernel - 1 - t], padding K - padding)[u]
#pragma once

#include <cstdint>
#include <optional>

#include "core/call.h"
#include "core/problem.h"

namespace convt3d {

// The forward whose output is the input gradient; nothing where there is none: strides, groups, output padding, or more
// padding than the kernel reaches.
std::optional<Problem> input_grad_as_forward(const Problem& problem);

// The weight of that forward, as a view.
ConstTensor input_grad_weight(const Problem& problem, const ConstTensor& weight, int64_t element_bytes);

}  // namespace convt3d
