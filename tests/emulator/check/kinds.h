// Problems of kinds that together reach the plans of every engine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "check/tensor.h"
#include "core/problem.h"

namespace check {

struct Drawing {
  Random& random;
  convt3d::Problem& problem;

  int64_t draw(int64_t least, int64_t most) { return between(random, least, most); }
  bool coin(int percent) { return chance(random, percent); }
  int64_t one_of(std::initializer_list<int64_t> values) {
    return values.begin()[draw(0, static_cast<int64_t>(values.size()) - 1)];
  }
  void channels(int64_t groups, int64_t inputs, int64_t outputs) {
    problem.groups = groups;
    problem.in_channels = groups * inputs;
    problem.out_channels = groups * outputs;
  }
  // Often a multiple of 8.
  int64_t some_channels(int64_t most) {
    const int64_t count = draw(1, most);
    return coin(40) ? (count + 7) / 8 * 8 : count;
  }
  template <typename Each>
  void axes(Each&& each) {
    for (std::size_t i = 0; i < 3; ++i) each(i);
  }
};

using Kind = void (*)(Drawing&);

void any(Drawing& d);
void kernel_is_stride(Drawing& d);
void many_images(Drawing& d);
void long_rows(Drawing& d);
void wide_channels(Drawing& d);
void many_channels(Drawing& d);
void several_tiles(Drawing& d);
void folds(Drawing& d);
void long_kernels(Drawing& d);
void depthwise(Drawing& d);
void general(Drawing& d);
void whole_strides(Drawing& d);

bool is_affordable(const convt3d::Problem& problem);

}  // namespace check
