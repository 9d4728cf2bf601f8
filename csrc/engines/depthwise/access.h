// How the depthwise engine's kernels load and store: what a plan leaves to the launch, which knows strides and
// addresses. Knows nothing of torch or CUDA.
#pragma once

#include "core/call.h"
#include "engines/depthwise/plan.h"

namespace convt3d {

struct DepthwiseAccess {
  bool source_vectors;       // rows: a thread's positions along the width are aligned and whole; channels: quads are
  bool destination_vectors;  // likewise a thread's outputs along the width, or the quads
  bool regular;              // what the kernels that know the taps need
};

DepthwiseAccess choose_access(const Problem& problem, const DepthwisePlan& plan, DataType dtype,
                              const ConstTensor& input, const MutableTensor& output);

}  // namespace convt3d
