// The outputs that taps meet, as a view. Along an axis whose stride and dilation have a common divisor g (the stride,
// where there is one tap) taps meet every g-th output only:
//
//     o = i*stride - padding + k*dilation = first + g*u    with    u = i*(stride/g) - (padding + first)/g +
//     k*(dilation/g)
//
// So gradients are those of a layer with strides and dilations divided by g, of these outputs alone.
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
};

// Nothing where taps meet outputs of all kinds.
std::optional<OutputView> met_outputs(const Problem& problem);

// What is known of a tensor of all outputs -> of the view.
OperandTraits viewed(const OutputView& view, const OperandTraits& tensor, int64_t element_bytes);
ConstTensor viewed(const OutputView& view, const ConstTensor& tensor, int64_t element_bytes);

}  // namespace convt3d
