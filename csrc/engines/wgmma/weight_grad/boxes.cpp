#include "engines/wgmma/weight_grad/boxes.h"

namespace convt3d {
namespace {

TensorBox box_of(int32_t element_bytes, int64_t channels, int64_t batch, const Int3& size,
                 const std::array<int64_t, 5>& stride, int32_t images, const int32_t (&extent)[3],
                 const int32_t (&every)[3]) {
  TensorBox box{};
  box.swizzle = kWgmmaGradRowBytes;
  box.set(0, channels, element_bytes, kWgmmaGradRowBytes / element_bytes);
  box.set(1, batch, stride[0] * element_bytes, images);
  for (int i = 0; i < 3; ++i) {
    const auto axis = static_cast<std::size_t>(i);
    box.set(4 - i, size[axis], stride[axis + 2] * element_bytes, extent[i], every[i]);
  }
  return box;
}

bool can_box(int32_t element_bytes, int64_t channels, int64_t batch, const Int3& size, const OperandTraits& tensor) {
  if (channels > 1 && tensor.stride[1] != 1) return false;
  constexpr int32_t kOne[3] = {1, 1, 1};
  TensorBox box = box_of(element_bytes, channels, batch, size, tensor.stride, 1, kOne, kOne);
  box.data = reinterpret_cast<const void*>(static_cast<uintptr_t>(tensor.address));
  return describable(box);
}

}  // namespace

bool can_box(const Problem& problem, int32_t element_bytes, const Operands& operands) {
  // A box begins at whole pieces of 16 bytes.
  const bool begins = problem.groups == 1 || (problem.in_channels_per_group() * element_bytes % 16 == 0 &&
                                              problem.out_channels_per_group() * element_bytes % 16 == 0);
  return begins && can_box(element_bytes, problem.out_channels, problem.batch, problem.output_size(), operands.first) &&
         can_box(element_bytes, problem.in_channels, problem.batch, problem.input_size, operands.second);
}

TensorBox input_box(const Problem& problem, const WgmmaWeightGradPlan& plan, const std::array<int64_t, 5>& stride) {
  constexpr int32_t kEvery[3] = {1, 1, 1};
  return box_of(plan.element_bytes(), problem.in_channels, problem.batch, problem.input_size, stride, plan.images,
                plan.input.extent, kEvery);
}

TensorBox grad_box(const Problem& problem, const WgmmaWeightGradPlan& plan, const std::array<int64_t, 5>& stride) {
  const int32_t every[3] = {plan.taps[0].every(), plan.taps[1].every(), plan.taps[2].every()};
  return box_of(plan.element_bytes(), problem.out_channels, problem.batch, problem.output_size(), stride, plan.images,
                plan.grad.extent, every);
}

}  // namespace convt3d
