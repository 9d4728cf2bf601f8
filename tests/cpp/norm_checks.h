// Which tensors of a group norm go by vectors: where the kernels' whole slots are aligned and contiguous.
#pragma once

#include <algorithm>
#include <random>

#include "norm/plan.h"
#include "norm/vectors.h"
#include "terms.h"

namespace convt3d {

struct NormTensor {
  int64_t address = 0;  // in bytes
  norm::Size stride{};
  DataType type = DataType::kFloat32;
};

inline norm::Size norm_strides(const norm::Size& size, bool channels_last, int64_t pad) {
  norm::Size stride{};
  int64_t extent = 1;
  const std::array<size_t, 5> last = {1, 4, 3, 2, 0};
  const std::array<size_t, 5> first = {4, 3, 2, 1, 0};
  for (const size_t axis : channels_last ? last : first) {
    stride[axis] = extent;
    extent *= size[axis];
    if (axis == 1 || (axis == 2 && !channels_last)) extent += pad;  // rows, or positions, are farther apart
  }
  return stride;
}

// As norm/slots.cuh numbers them: a slot of which all elements exist.
template <typename Function>
void for_whole_slots(const norm::Plan& plan, const norm::Size& size, int64_t phase, const norm::Size& of_x,
                     Function&& function) {
  const int64_t positions = size[2] * size[3] * size[4];
  for (int64_t n = 0; n < size[0]; ++n) {
    if (plan.channels_last) {
      for (int64_t p = 0; p < positions; ++p) {
        for (int64_t c = 0; c + plan.slot <= size[1]; c += plan.slot) function(n, c, p);
      }
      continue;
    }
    for (int64_t c = 0; c < size[1]; ++c) {
      const int64_t shift = (phase + n * of_x[0] + c * of_x[1]) % plan.slot;
      for (int64_t p = shift > 0 ? plan.slot - shift : 0; p + plan.slot <= positions; p += plan.slot) function(n, c, p);
    }
  }
}

// Whether all of these slots of a tensor are vectors of 16 bytes.
inline bool are_vectors(const norm::Plan& plan, const norm::Size& size, int64_t phase, const norm::Size& of_x,
                        const NormTensor& tensor) {
  const int64_t step = norm::position_stride(size, tensor.stride);
  bool all = (plan.channels_last ? tensor.stride[1] : step) == 1;
  for_whole_slots(plan, size, phase, of_x, [&](int64_t n, int64_t c, int64_t p) {
    const int64_t element = n * tensor.stride[0] + c * tensor.stride[1] + p * step;
    all = all && (tensor.address + element * element_size(tensor.type)) % 16 == 0;
  });
  return all;
}

inline void check_norm_vectors(std::mt19937& random) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const Problem problem;
  int by_vectors = 0;
  int by_elements = 0;
  for (int i = 0; i < 20000; ++i) {
    const norm::Size size = {draw(1, 3), draw(1, 4) * draw(1, 8), draw(1, 3), draw(1, 4), draw(1, 4) * draw(1, 4)};
    const DataType type = draw(0, 1) == 0 ? DataType::kFloat32 : DataType::kFloat16;
    const bool last = draw(0, 1) == 0;
    const auto tensor = [&](DataType of) {
      const bool odd = draw(0, 3) == 0;
      return NormTensor{int64_t{1} << 20 | (odd ? draw(0, 31) * element_size(of) : 0),
                        norm_strides(size, draw(0, 9) == 0 ? !last : last, draw(0, 2) == 0 ? draw(0, 9) : 0), of};
    };
    const NormTensor x = tensor(type);
    const NormTensor result = tensor(draw(0, 1) == 0 ? type : DataType::kFloat32);
    const NormTensor grad_x = tensor(type);
    const auto data = [](const NormTensor& of) { return reinterpret_cast<void*>(static_cast<uintptr_t>(of.address)); };
    const norm::Plan plan = norm::make_plan(size, x.stride, 1, type);
    const norm::Vectors forward =
        norm::forward_vectors(plan, size, type, result.type, {data(x), x.stride}, {data(result), result.stride});
    const norm::Vectors backward = norm::backward_vectors(plan, size, type, result.type, {data(x), x.stride},
                                                          {data(result), result.stride}, {data(grad_x), grad_x.stride});
    const int64_t line = norm::kSlotsOfLine * plan.slot;
    expect(forward.phase == x.address / element_size(type) % line && backward.phase == forward.phase &&
               backward.x == forward.x && backward.grad_result == forward.result,
           "a result and its gradient go alike", problem);
    const auto may = [&](const NormTensor& of) { return are_vectors(plan, size, forward.phase, x.stride, of); };
    expect((!forward.x || may(x)) && (!forward.result || may(result)) && (!backward.grad_x || may(grad_x)),
           "vectors are aligned and contiguous", problem);
    const bool plain = x.address % 32 == 0 && result.address % 32 == 0 && result.stride == x.stride;
    const bool whole = plan.channels_last ? size[1] % plan.slot == 0 && x.stride[0] % plan.slot == 0 &&
                                                norm::position_stride(size, x.stride) % plan.slot == 0
                                          : norm::position_stride(size, x.stride) == 1;
    if (!plan.channels_last && whole) expect(forward.x, "rows go by vectors wherever they begin", problem);
    if (plain && whole) expect(forward.x && forward.result, "aligned tensors go by vectors", problem);
    ++(forward.result ? by_vectors : by_elements);
  }
  expect(by_vectors > 1000 && by_elements > 1000, "results of both kinds", problem);
  const norm::Size size = {1, 4, 1, 1, 8};
  const norm::Size stride = norm_strides(size, false, 0);
  const norm::Plan plan = norm::make_plan(size, stride, 1, DataType::kFloat32);
  const void* const at = reinterpret_cast<const void*>(uintptr_t{64});
  const norm::Vectors none = norm::backward_vectors(plan, size, DataType::kFloat32, DataType::kFloat32, {at, stride},
                                                    {at, stride}, {nullptr, stride});
  expect(none.x && none.grad_result && !none.grad_x, "what is absent goes no way", problem);
}

}  // namespace convt3d
