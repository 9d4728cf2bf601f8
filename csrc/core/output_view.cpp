#include "core/output_view.h"

#include <numeric>

#include "core/integer.h"

namespace convt3d {
namespace {

// Bytes from a tensor's first element to the view's.
int64_t first_byte(const OutputView& view, const std::array<int64_t, 5>& stride, int64_t element_bytes) {
  int64_t elements = 0;
  for (size_t i = 0; i < 3; ++i) elements += view.first[i] * stride[2 + i];
  return elements * element_bytes;
}

std::array<int64_t, 5> viewed_stride(const OutputView& view, std::array<int64_t, 5> stride) {
  if (view.width_channels && !view.joins_weight()) stride[1] = stride[4];
  for (size_t i = 0; i < 3; ++i) stride[2 + i] *= view.step[i];
  return stride;
}

bool has_one_tap_an_output(const Problem& problem) {
  const int64_t taps = problem.kernel_size[2];
  return taps > 1 && problem.stride[2] == taps && problem.dilation[2] == 1 && problem.padding[2] == 0 &&
         problem.output_size(2) == problem.input_size[2] * taps;
}

bool width_taps_are_channels(const Problem& problem) {
  return problem.out_channels == 1 && has_one_tap_an_output(problem);
}

void join_width(OutputView& view) {
  Problem& joined = view.problem;
  view.width_channels = true;
  view.step[2] = joined.kernel_size[2];
  joined.out_channels *= joined.kernel_size[2];
  joined.kernel_size[2] = joined.stride[2] = 1;
  joined.output_padding[2] = 0;
}

// Those that taps meet; nothing where taps meet none.
std::optional<OutputView> met_outputs(const Problem& problem, bool steps_width) {
  OutputView view{problem, {}, {}, false};
  for (size_t i = 0; i < 3; ++i) {
    const int64_t taps = problem.kernel_size[i];
    const int64_t divisor = taps == 1 ? problem.stride[i] : std::gcd(problem.stride[i], problem.dilation[i]);
    const int64_t step = i == 2 && !steps_width ? 1 : divisor;
    const int64_t size = problem.output_size(static_cast<int>(i));
    const int64_t first = floor_mod(-problem.padding[i], step);
    view.step[i] = step;
    view.first[i] = first;
    if (first >= size) return std::nullopt;
    Problem& met = view.problem;
    met.stride[i] = problem.stride[i] / step;
    met.dilation[i] = taps == 1 && step > 1 ? 1 : problem.dilation[i] / step;
    met.padding[i] = (problem.padding[i] + first) / step;
    met.output_padding[i] = 0;
    met.output_padding[i] = (size - 1 - first) / step + 1 - met.output_size(static_cast<int>(i));
  }
  return view;
}

}  // namespace

std::optional<OutputView> read_outputs(const Problem& problem, bool steps_width) {
  std::optional<OutputView> view = met_outputs(problem, steps_width);
  if (view && width_taps_are_channels(problem)) join_width(*view);
  return view && view->has_all_outputs() && !view->width_channels ? std::nullopt : view;
}

std::optional<OutputView> joined_outputs(const Problem& problem, const Operands& gradient, int64_t element_bytes) {
  constexpr int64_t kChunkBytes = 64;
  const int64_t channels = problem.out_channels;
  if (channels == 1 || problem.groups > 1 || channels * element_bytes % kChunkBytes == 0) return std::nullopt;
  if (!has_one_tap_an_output(problem) || !joins_width(gradient.first.stride, channels)) return std::nullopt;
  if (gradient.mask.present && !joins_width(gradient.mask.stride, channels)) return std::nullopt;
  std::optional<OutputView> view = met_outputs(problem, true);
  if (view) join_width(*view);
  return view;
}

OperandTraits viewed(const OutputView& view, const OperandTraits& tensor, int64_t element_bytes) {
  if (!tensor.present) return tensor;
  const int64_t address = tensor.address + first_byte(view, tensor.stride, element_bytes);
  return {viewed_stride(view, tensor.stride), static_cast<int32_t>(address % kAddressModulus), true};
}

std::optional<OutputView> written_outputs(const Problem& problem) {
  if (!width_taps_are_channels(problem)) return std::nullopt;
  OutputView view{problem, {0, 0, 0}, {1, 1, 1}, false};
  join_width(view);
  return view;
}

MutableTensor viewed(const OutputView& view, const MutableTensor& tensor, int64_t element_bytes) {
  return {static_cast<unsigned char*>(tensor.data) + first_byte(view, tensor.stride, element_bytes),
          viewed_stride(view, tensor.stride)};
}

ConstTensor viewed(const OutputView& view, const ConstTensor& tensor, int64_t element_bytes) {
  if (tensor.data == nullptr) return tensor;
  return {static_cast<const unsigned char*>(tensor.data) + first_byte(view, tensor.stride, element_bytes),
          viewed_stride(view, tensor.stride)};
}

}  // namespace convt3d
