// What becomes of a sum on its way to memory, as data: one description from csrc/ops to the kernel. In this order, each
// if it is wanted: the bias is added, the activation taken, moments are gathered of what that gives, and it is rounded,
// once. A norm is applied to what memory would have, rounded, and its result is rounded again: so it is the same as by
// a pass of its own. Knows nothing of torch or CUDA.
#pragma once

#include <cstdint>

#include "core/call.h"
#include "core/host_device.h"

namespace convt3d {

enum class Activation : int { kNone, kRelu };

// The moments of some outputs of one channel: how many they are and, of their deviations from a pivot near their mean,
// the sum and the sum of squares. So neither a large mean nor an outlier costs digits.
struct alignas(16) PartMoments {
  float count;
  float pivot;
  float sum;
  float squares;
};

// Where an epilogue leaves moments for a norm behind the operator, [image][part][channel]. A part is what one warp has
// of a channel and a phase at a time; which outputs that are is the plan's (moment_parts in planning/operator_plan.h).
struct EpilogueMoments {
  PartMoments* parts = nullptr;  // not wanted
  int64_t count = 0;             // parts of an image and channel
  int64_t channels = 0;          // of the output

  CONVT3D_HOST_DEVICE PartMoments* at(int64_t image, int64_t part, int64_t channel) const {
    return parts + (image * count + part) * channels + channel;
  }
};

// What a norm makes of the outputs of one channel of an image: (output - center) * scale + shift and, of that, `slope`
// times what is negative.
struct alignas(16) ChannelNorm {
  float center;
  float scale;
  float shift;
  float slope;
};

// [image][channel]
struct EpilogueNorm {
  const ChannelNorm* norms = nullptr;  // not wanted
  int64_t channels = 0;                // of the output

  CONVT3D_HOST_DEVICE const ChannelNorm* at(int64_t image, int64_t channel) const {
    return norms + image * channels + channel;
  }
};

// The bias and the activation every engine knows; the rest those whose plans have moment_parts.
struct Epilogue {
  ConstVector bias;  // of the output channels; may be absent
  Activation activation = Activation::kNone;
  EpilogueMoments moments = {};
  EpilogueNorm norm = {};
  bool stores = true;  // else the moments are all that is wanted
};

}  // namespace convt3d
