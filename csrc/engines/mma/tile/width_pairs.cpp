#include "engines/mma/tile/width_pairs.h"

namespace convt3d::mma {
namespace {

constexpr int kWidth = 4;  // of a tensor's axes

// The taps at offsets -padding + k, as taps of words.
struct WordTaps {
  int32_t first;  // offset of the first word
  int32_t count;
  WidthPairs pairs;
};
WordTaps word_taps(int64_t padding, int64_t taps) {
  const auto odd = static_cast<int32_t>(padding & 1);
  const auto first = static_cast<int32_t>(-(padding + odd) / 2);
  const auto count = static_cast<int32_t>((taps + odd + 1) / 2);
  return {first, count, {true, -odd, static_cast<int32_t>(taps)}};
}

template <typename Tensor>
Tensor halved(Tensor tensor) {
  for (std::size_t i = 0; i < kWidth; ++i) tensor.stride[i] /= 2;
  return tensor;
}

}  // namespace

bool has_width_pairs(const OperandTraits& tensor, int64_t size) {
  for (std::size_t i = 0; i < kWidth; ++i) {
    if (tensor.stride[i] % 2 != 0) return false;
  }
  return tensor.stride[kWidth] == 1 && size % 2 == 0 && tensor.address % 4 == 0;
}

OperandTraits width_pairs_of(const OperandTraits& tensor) { return halved(tensor); }
ConstTensor width_pairs_of(const ConstTensor& tensor) { return halved(tensor); }
Int3 width_pairs_of(const Int3& size) { return {size[0], size[1], size[2] / 2}; }

std::optional<PairedAxis> paired_axis(const AxisMap& map) {
  const bool neighbours = map.taps == 1 || map.offset_step == 1;
  if (map.phases != 1 || map.dst_step != 1 || map.tap_step != 1 || map.src_step % 2 != 0 || !neighbours) return {};
  // An input gradient's map has the negated padding.
  const WordTaps taps = word_taps(-int64_t{map.padding}, map.taps);
  AxisMap words = map;
  words.src_size = map.src_size / 2;
  words.src_step = map.src_step / 2;
  words.padding = taps.first;
  words.taps = taps.count;
  words.dilation = -1;
  words.offset_step = 1;
  return PairedAxis{words, taps.pairs};
}

std::optional<PairedAxis> paired_result(const AxisMap& map) {
  const bool neighbours = map.taps == 1 || map.dilation == 1;
  if (map.dst_step != 2 || map.src_step != 1 || map.dst_size % 2 != 0 || !neighbours) return {};
  // Output 2u + e has tap k of input position u + (e + padding - k) / 2: word tap j is first_tap + 2j, and the next.
  const WordTaps taps = word_taps(map.padding, map.taps);
  AxisMap words = map;
  words.dst_size = map.dst_size / 2;
  words.dst_step = 1;
  words.padding = -taps.first;
  words.dilation = 1;
  words.taps = taps.count;
  words.tap_step = 1;
  words.offset_step = -1;
  words.phases = 1;
  return PairedAxis{words, taps.pairs};
}

std::optional<PairedProblem> paired_weight_grad(const Problem& problem) {
  const int64_t stride = problem.stride[2];
  const bool neighbours = problem.kernel_size[2] == 1 || problem.dilation[2] == 1;
  if ((stride != 1 && stride % 2 != 0) || !neighbours || problem.input_size[2] % 2 != 0) return {};
  const WordTaps taps = word_taps(problem.padding[2], problem.kernel_size[2]);
  PairedProblem paired{problem, taps.pairs, static_cast<int32_t>(stride == 1 ? 1 : stride / 2)};
  Problem& words = paired.problem;
  words.input_size[2] = problem.input_size[2] / 2;
  words.kernel_size[2] = taps.count;
  words.padding[2] = -taps.first;
  words.dilation[2] = 1;
  words.output_padding[2] = 0;
  words.output_padding[2] = problem.output_size(2) / 2 - words.output_size(2);
  return paired;
}

}  // namespace convt3d::mma
