// What operators of a layer need of its outputs, as a view of these, by which they are those of a simpler layer.
//
// Outputs that taps meet: along an axis whose stride and dilation have a common divisor g (the stride, where there is
// one tap) taps meet every g-th output only:
//
//     o = i*stride - padding + k*dilation = first + g*u
//     with u = i*(stride/g) - (padding + first)/g + k*(dilation/g)
//
// So gradients are those of a layer with strides and dilations divided by g, of these outputs alone.
//
// Taps as channels: where there is one output channel, and a width of kernel == stride without padding, each output has
// one input position and one tap along the width. The taps of the width are then channels of a layer without them:
//
//     grad_output[n, 0, d, h, w*stride + k]  ->  [n, k, d, h, w]
//     weight[c, 0, kd, kh, k]                ->  [c, k, kd, kh, 0]
#pragma once

#include <cstdint>
#include <optional>

#include "core/operands.h"
#include "core/problem.h"

namespace convt3d {

struct OutputView {
  Problem problem;  // whose outputs these are; its output padding may be negative
  Int3 first;
  Int3 step;
  bool width_channels;  // the taps of the width are channels
};

// Of gradients, which read grad_output. Nothing where they need all of it, as it is. `steps_width`: else all of the
// width is in the view, which is faster to read where neighbours in memory are neighbours along it.
std::optional<OutputView> read_outputs(const Problem& problem, bool steps_width);
inline bool steps_width(const OperandTraits& grad_output) { return grad_output.stride[4] != 1; }
// Of a forward, which writes all outputs: only taps as channels, which all have the layer's bias.
std::optional<OutputView> written_outputs(const Problem& problem);

// What is known of a tensor of all outputs -> of the view.
OperandTraits viewed(const OutputView& view, const OperandTraits& tensor, int64_t element_bytes);
ConstTensor viewed(const OutputView& view, const ConstTensor& tensor, int64_t element_bytes);
MutableTensor viewed(const OutputView& view, const MutableTensor& tensor, int64_t element_bytes);
// The weight, or its gradient, as that of the view's layer.
template <typename Tensor>
Tensor viewed_weight(const OutputView& view, Tensor weight) {
  if (view.width_channels) weight.stride[1] = weight.stride[4];
  return weight;
}

}  // namespace convt3d
