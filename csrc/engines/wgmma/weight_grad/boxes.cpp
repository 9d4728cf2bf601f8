#include "engines/wgmma/weight_grad/boxes.h"

namespace convt3d {
namespace {

constexpr int32_t kElementBytes = 2;

TensorBox box_of(int64_t channels, int64_t batch, const Int3& size, const std::array<int64_t, 5>& stride,
                 int32_t images, const int32_t (&extent)[3], const int32_t (&every)[3]) {
  TensorBox box{};
  box.swizzle = kWgmmaGradRowBytes;
  box.set(0, channels, kElementBytes, kWgmmaGradPanelChannels);
  box.set(1, batch, stride[0] * kElementBytes, images);
  for (int i = 0; i < 3; ++i) {
    const auto axis = static_cast<std::size_t>(i);
    box.set(4 - i, size[axis], stride[axis + 2] * kElementBytes, extent[i], every[i]);
  }
  return box;
}

bool can_box(int64_t channels, int64_t batch, const Int3& size, const OperandTraits& tensor) {
  if (channels > 1 && tensor.stride[1] != 1) return false;
  constexpr int32_t kOne[3] = {1, 1, 1};
  TensorBox box = box_of(channels, batch, size, tensor.stride, 1, kOne, kOne);
  box.data = reinterpret_cast<const void*>(static_cast<uintptr_t>(tensor.address));
  return describable(box);
}

}  // namespace

bool can_box(const Problem& problem, const Operands& operands) {
  // A box begins at whole pieces of 16 bytes.
  const bool begins = problem.groups == 1 || (problem.in_channels_per_group() * kElementBytes % 16 == 0 &&
                                              problem.out_channels_per_group() * kElementBytes % 16 == 0);
  return begins && can_box(problem.out_channels, problem.batch, problem.output_size(), operands.first) &&
         can_box(problem.in_channels, problem.batch, problem.input_size, operands.second);
}

TensorBox input_box(const Problem& problem, const WgmmaWeightGradPlan& plan, const std::array<int64_t, 5>& stride) {
  constexpr int32_t kEvery[3] = {1, 1, 1};
  return box_of(problem.in_channels, problem.batch, problem.input_size, stride, plan.images, plan.input.extent, kEvery);
}

TensorBox grad_box(const Problem& problem, const WgmmaWeightGradPlan& plan, const std::array<int64_t, 5>& stride) {
  const int32_t every[3] = {plan.taps[0].step, plan.taps[1].step, plan.taps[2].step};
  return box_of(problem.out_channels, problem.batch, problem.output_size(), stride, plan.images, plan.grad.extent,
                every);
}

}  // namespace convt3d
