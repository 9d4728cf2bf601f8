// Weights of a block's output channels in shared memory, [input channel of a group][tap][channel], so that a thread
// reads a quad of channels at once; a row before them holds the bias.
#pragma once

#include "kernels/depthwise_params.cuh"

namespace convt3d {

template <typename T>
struct DepthwiseChannelWeights {
  using Acc = Accumulator<T>;
  static_assert(kDepthwiseChannels == kQuad, "a thread owns a quad of channels");
  Acc* data;
  int32_t pitch;  // padded: the threads that stage neighbouring taps meet few banks twice

  __device__ __forceinline__ explicit DepthwiseChannelWeights(const DepthwisePlan& plan)
      : data(reinterpret_cast<Acc*>(depthwise_shared)),
        pitch(plan.lanes * kQuad + static_cast<int32_t>(16 / sizeof(Acc))) {}

  __device__ __forceinline__ void stage(const DepthwiseParams<T>& params, int32_t first_channel) const {
    const DepthwisePlan& plan = params.plan;
    const Strides& stride = params.weight_stride;
    const int32_t staged = plan.lanes * kQuad;
    const int32_t existing = min(staged, plan.groups * plan.out_channels - first_channel);
    const uint32_t height = plan.axis[1].taps;
    const uint32_t width = plan.axis[2].taps;
    const uint32_t taps = plan.axis[0].taps * height * width;
    for (int32_t c = static_cast<int32_t>(threadIdx.x); c < staged; c += kDepthwiseThreads) {
      data[c] = c < existing ? depthwise_bias(params, first_channel + c) : Acc(0);
    }
#pragma unroll 1
    for (uint32_t tap = threadIdx.x % 32; tap < taps; tap += 32) {
      const uint32_t row = tap / width;
      const T* const place = params.weight + stride.spatial(row / height, row % height, tap % width);
#pragma unroll 1
      for (int32_t c = static_cast<int32_t>(threadIdx.x / 32); c < staged; c += kDepthwiseThreads / 32) {
        const uint32_t channel = first_channel + c;
        const uint32_t group = plan.out_channels == 1 ? channel : channel / plan.out_channels;
        const uint32_t in_group = channel - group * plan.out_channels;
#pragma unroll 1
        for (int32_t in_channel = 0; in_channel < plan.in_channels; ++in_channel) {
          Acc value = 0;
          if (c < existing) {
            value = to_accumulator(
                __ldg(place + (int64_t{group} * plan.in_channels + in_channel) * stride.n + in_group * stride.c));
          }
          data[(in_channel * taps + tap + 1) * pitch + c] = value;
        }
      }
    }
  }

  // Quads from `channel` of the block on; rows and quads are whole 16 bytes.
  __device__ __forceinline__ Quad<Acc> bias(int32_t channel) const {
    return *reinterpret_cast<const Quad<Acc>*>(data + channel);
  }
  __device__ __forceinline__ Quad<Acc> quad(int32_t row, int32_t channel) const {
    return *reinterpret_cast<const Quad<Acc>*>(data + (row + 1) * pitch + channel);
  }
};

}  // namespace convt3d
