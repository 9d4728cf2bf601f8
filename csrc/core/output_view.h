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
// Taps as channels: with a width of kernel == stride without padding, each output has one input position and one tap
// along the width. The taps of the width are then channels of a layer without them:
//
//     grad_output[n, c, d, h, w*stride + k]  ->  [n, k*channels + c, d, h, w]
//     weight[i, c, kd, kh, k]                ->  [i, k*channels + c, kd, kh, 0]
//
// where there is one channel, or where a position's channels are followed by the next position's, as with the channels
// last. Then so must be the weight's.
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

  // Channels of the view that are one of the layer's, for all of which the bias is the same.
  int64_t channel_folds() const { return width_channels ? step[2] : 1; }
  // Whether the weight's taps of the width have to follow one another as its channels do (joins_width()).
  bool joins_weight() const { return width_channels && problem.out_channels > step[2]; }
  bool has_all_outputs() const { return step[0] == 1 && step[1] == 1 && (width_channels || step[2] == 1); }
};

// Of gradients, which read grad_output. Nothing where they need all of it, as it is. `steps_width`: else all of the
// width is in the view, which is faster to read where neighbours in memory are neighbours along it.
std::optional<OutputView> read_outputs(const Problem& problem, bool steps_width);
inline bool steps_width(const OperandTraits& grad_output) { return grad_output.stride[4] != 1; }
// The same with taps as channels beside other channels, where that can be. Channels of whole chunks of the tensor
// cores' sums gain nothing by it.
std::optional<OutputView> joined_outputs(const Problem& problem, const Operands& gradient, int64_t element_bytes);
// Whether the channels of a position are followed by the next one's along the width.
inline bool joins_width(const std::array<int64_t, 5>& stride, int64_t channels) {
  return stride[4] == channels * stride[1];
}
// Of a forward, which writes all outputs: only taps as channels, which all have the layer's bias.
std::optional<OutputView> written_outputs(const Problem& problem);

// What is known of a tensor of all outputs -> of the view.
OperandTraits viewed(const OutputView& view, const OperandTraits& tensor, int64_t element_bytes);
ConstTensor viewed(const OutputView& view, const ConstTensor& tensor, int64_t element_bytes);
MutableTensor viewed(const OutputView& view, const MutableTensor& tensor, int64_t element_bytes);
// The weight, or its gradient, as that of the view's layer.
template <typename Tensor>
Tensor viewed_weight(const OutputView& view, Tensor weight) {
  if (view.width_channels && !view.joins_weight()) weight.stride[1] = weight.stride[4];
  return weight;
}

}  // namespace convt3d
