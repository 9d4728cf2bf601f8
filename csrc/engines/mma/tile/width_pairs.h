// Tensors of 16 bits as tensors of words: two neighbours along the width are one. A width that is contiguous is then
// read as it lies, and the two halves of a word are neighbours along K: of an input gradient two taps, of a weight
// gradient two positions. Nothing is transposed. Of a forward whose output is words, neighbouring columns of the
// product are the halves.
//
//     input gradient, stride 2, kernel 3, padding 1        weight gradient, stride 2, kernel 2
//     grad_output   [ . 0 ][ 1 2 ]      taps of u = 0      grad_output   [ 0 1 ]   [ 0 1 ]     taps
//                     word   word                                          |  \     /  |
//                      -1     0         and so on          positions u   u = 2v      2v + 1    of the input's word v
#pragma once

#include <optional>

#include "core/call.h"
#include "core/operands.h"
#include "core/phase_map.h"
#include "core/problem.h"

namespace convt3d::mma {

// The taps of words: word tap j has taps first_tap + 2j and the next, as far as the kernel has them.
struct WidthPairs {
  bool exist;
  int32_t first_tap;  // 0 or -1
  int32_t taps;       // of the kernel, along the width
};

// Rows of `size` elements are whole words.
bool has_width_pairs(const OperandTraits& tensor, int64_t size);
// The same tensor or size, in words.
OperandTraits width_pairs_of(const OperandTraits& tensor);
ConstTensor width_pairs_of(const ConstTensor& tensor);
Int3 width_pairs_of(const Int3& size);

struct PairedAxis {
  AxisMap map;
  WidthPairs pairs;
};
// An axis whose positions read every step-th element, as one whose positions read words; none where a word's halves
// would not be taps of one position.
std::optional<PairedAxis> paired_axis(const AxisMap& map);

// An axis with two outputs to an input position, as one whose output is words: two columns of the product are the
// halves of one; none where they would not read the same input positions.
std::optional<PairedAxis> paired_result(const AxisMap& map);

// A weight gradient whose positions along the width are pairs, of the input's words; none where their halves do not lie
// alike in words of grad_output. Of a word tap, the halves of positions 2v and 2v + 1 come from two words, `apart`.
struct PairedProblem {
  Problem problem;
  WidthPairs pairs;
  int32_t apart;
};
std::optional<PairedProblem> paired_weight_grad(const Problem& problem);

}  // namespace convt3d::mma
