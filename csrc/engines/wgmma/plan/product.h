// A forward as the matrix product that the wgmma engine computes. In GEMM's names, M is (phases, output channel), N is
// positions u of the phase grid, K is (tap, input channel).
// - Groups: some may be joined into one, whose weight is block-diagonal. Of few channels each, they then fill whole K
//   steps, whole slabs and whole sectors of memory.
// - Terms: float32 proper is split into two TF32 numbers, high + low ("3xTF32"), each with panels and weights of its
//   own. A K step is then three products: low x high, high x low, high x high.
#pragma once

#include <cstdint>

#include "core/divisor.h"
#include "core/one_or_two.h"
#include "engines/wgmma/plan/problem.h"

namespace convt3d {

// How elements enter the tensor cores.
struct WgmmaElement {
  int32_t bytes;  // 4: float32, or 2
  int32_t terms;  // 1 (float32 is rounded to TF32), or 2 of float32 proper
};

struct WgmmaProduct {
  int64_t images;
  int64_t groups;        // after joining
  int32_t joined;        // of the layer's groups, in each of these
  int32_t in_channels;   // of a group
  int32_t out_channels;  // of a group
  OneOrTwo terms;        // of an operand
  Divisor by_groups;
};

inline WgmmaProduct make_product(const WgmmaProblem& problem, WgmmaElement element, int32_t joined) {
  WgmmaProduct product;
  product.images = problem.batch;
  product.groups = problem.groups / joined;
  product.joined = joined;
  product.in_channels = static_cast<int32_t>(joined * problem.in_channels_per_group());
  product.out_channels = static_cast<int32_t>(joined * problem.out_channels_per_group());
  product.terms = {element.terms};
  product.by_groups = make_divisor(product.groups);
  return product;
}

}  // namespace convt3d
