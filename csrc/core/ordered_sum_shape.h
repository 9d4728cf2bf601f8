// Which of the kernels that add partial sums in order (device/ordered_sum.cuh) adds those that a plan leaves: what the
// plan says, and the launch runs. Knows nothing of torch or CUDA.
#pragma once

#include <cstdint>

namespace convt3d {

constexpr int kOrderedSumThreads = 256;
constexpr int kOrderedSumRows = 4;  // of a thread, where there are many elements

struct OrderedSumShape {
  int32_t lanes;  // threads that share the splits of one element
  int32_t rows;   // of a tile, that a thread has

  friend constexpr bool operator==(OrderedSumShape a, OrderedSumShape b) {
    return a.lanes == b.lanes && a.rows == b.rows;
  }
};

// So many that blocks of so many lanes and kOrderedSumRows have two each on a multiprocessor, or more.
constexpr int64_t many_elements(int32_t lanes) { return int64_t{512} * kOrderedSumRows * kOrderedSumThreads / lanes; }

// One lane is for many elements, many lanes for few elements of many splits: few are shared out among many blocks.
constexpr OrderedSumShape ordered_sum_shape(int32_t lanes, int64_t elements) {
  const bool many = lanes == 1 || (lanes < kOrderedSumThreads && elements >= many_elements(lanes));
  return {lanes, many ? kOrderedSumRows : 1};
}

// Threads that share the splits of one sum of a gradient, where there are many; fewer where there are many sums, too.
constexpr int kSumLanes = 8;
constexpr int kFewSumLanes = 4;

// Of a gradient with so many sums of so many partial ones.
constexpr OrderedSumShape gradient_sum_shape(int64_t partials, int64_t sums) {
  return ordered_sum_shape(partials < kSumLanes                  ? 1
                           : sums >= many_elements(kFewSumLanes) ? kFewSumLanes
                                                                 : kSumLanes,
                           sums);
}

}  // namespace convt3d
