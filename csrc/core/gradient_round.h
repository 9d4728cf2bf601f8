// Gradients that are sums over all images, and the calls that sum them.
#pragma once

#include "core/call.h"

namespace convt3d {

// Of a gradient that several calls sum, some images each: whether sums of a call before are joined, and whether all of
// them are added up in the end.
struct GradRound {
  bool joins = false;
  bool adds = true;
};

// The bias's, in order of its channels, where the plan has it. Of that many channels of the problem, one behind the
// other, the bias has one: of taps that are channels (core/output_view.h).
struct SummedGrads {
  MutableTensor weight;
  void* bias = nullptr;
  int64_t channel_folds = 1;
};

}  // namespace convt3d
