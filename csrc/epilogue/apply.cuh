// Applies an epilogue to sums, in every engine's kernels.
#pragma once

#include <type_traits>

#include "device/numeric.cuh"
#include "device/ptx/numeric.cuh"
#include "epilogue/epilogue.h"

namespace convt3d {

// The bias of an output channel; 0 where there is no bias.
template <typename T>
__device__ __forceinline__ Accumulator<T> bias_of(const Epilogue& epilogue, int64_t channel) {
  const T* const bias = static_cast<const T*>(epilogue.bias.data);
  return bias != nullptr ? to_accumulator(__ldg(bias + channel * epilogue.bias.stride)) : Accumulator<T>(0);
}

// A NaN stays, as in torch.relu.
template <typename Acc>
__device__ __forceinline__ Acc rectified(Acc value) {
  if constexpr (std::is_same_v<Acc, float>) {
    return greater(value, 0);
  } else {
    return value < 0 ? Acc(0) : value;
  }
}

// Does as PyTorch's LeakyReLU or, without a slope, ReLU: a NaN passes.
template <typename Acc>
__device__ __forceinline__ Acc sloped(Acc value, Acc slope) {
  if (!(value <= 0)) return value;
  return slope == 0 ? Acc(0) : value * slope;
}

// The same bits in an epilogue as in a pass of its own.
template <typename Acc>
__device__ __forceinline__ Acc normalised(Acc value, Acc center, Acc scale, Acc shift) {
  return fma(value - center, scale, shift);
}

// Normalises a sum as memory would have it, rounded; without the activation behind the norm.
template <typename T>
__device__ __forceinline__ float normalised_alone(const ChannelNorm& norm, float value) {
  value = to_accumulator(from_accumulator<T>(value));
  return normalised(value, norm.center, norm.scale, norm.shift);
}
template <typename T>
__device__ __forceinline__ float normalised(const ChannelNorm& norm, float value) {
  return sloped(normalised_alone<T>(norm, value), norm.slope);
}

// Hands `function` what the activation makes of one value; calls nothing where there is no activation. A thread that
// has many values tests once which activation it is.
template <typename Function>
__device__ __forceinline__ void with_activation(const Epilogue& epilogue, Function&& function) {
  if (epilogue.activation == Activation::kRelu) function([](auto value) { return rectified(value); });
}

// A thread's sums, which the bias is in already.
template <typename Acc>
__device__ __forceinline__ void activate(const Epilogue& epilogue, Acc* sums, int count) {
  with_activation(epilogue, [&](auto activated) {
#pragma unroll
    for (int i = 0; i < count; ++i) sums[i] = activated(sums[i]);
  });
}

// One sum, of an output channel -> what memory gets.
template <typename T>
__device__ __forceinline__ T finished(const Epilogue& epilogue, Accumulator<T> sum, int64_t channel) {
  if (epilogue.bias.data != nullptr) sum += bias_of<T>(epilogue, channel);
  with_activation(epilogue, [&](auto activated) { sum = activated(sum); });
  return from_accumulator<T>(sum);
}

}  // namespace convt3d
