// Weights of a block's output channels in shared memory, [input channel of a group][tap][channel], so that a thread
// reads a quad of channels at once; a row before them holds the bias.
#pragma once

#include "engines/depthwise/params.cuh"

namespace convt3d {

// `kPitch`: from a row to the next where the compiler is to know it, else 0.
template <typename T, int kPitch = 0>
struct DepthwiseChannelWeights {
  using Acc = Accumulator<T>;
  static_assert(kDepthwiseChannels == kQuad, "a thread owns a quad of channels");
  Acc* data;
  int32_t pitch;  // padded: the threads that stage neighbouring taps meet few banks twice

  __device__ __forceinline__ explicit DepthwiseChannelWeights(const DepthwisePlan& plan)
      : data(reinterpret_cast<Acc*>(dynamic_shared_memory)),
        pitch(kPitch > 0 ? kPitch : depthwise_weight_pitch(plan.lanes, sizeof(Acc))) {}

  // kPure: one input and one output channel a group. Several loads at a time: all threads of a block wait for them.
  template <bool kPure>
  __device__ __forceinline__ void stage(const DepthwiseParams<T>& params, int32_t first_channel) const {
    const DepthwisePlan& plan = params.plan;
    const Strides& stride = params.weight_stride;
    constexpr int kAtATime = kPure ? 16 : 4;
    constexpr int kWarps = kDepthwiseThreads / 32;
    const int32_t staged = plan.lanes * kQuad;
    const int32_t existing = min(staged, plan.groups * plan.out_channels - first_channel);
    const uint32_t height = plan.axis[1].taps;
    const uint32_t width = plan.axis[2].taps;
    const uint32_t taps = plan.axis[0].taps * height * width;
    for (int32_t c = static_cast<int32_t>(threadIdx.x); c < staged; c += kDepthwiseThreads) {
      data[c] = c < existing ? bias_of<T>(params.epilogue, first_channel + c) : Acc(0);
    }
#pragma unroll 1
    for (uint32_t tap = threadIdx.x % 32; tap < taps; tap += 32) {
      const uint32_t row = tap / width;
      const T* const place = params.weight + stride.spatial(row / height, row % height, tap % width);
#pragma unroll 1
      for (int32_t in_channel = 0; in_channel < plan.in_channels; ++in_channel) {
        Acc* const to = data + (in_channel * taps + tap + 1) * pitch;
#pragma unroll 1
        for (int32_t c = static_cast<int32_t>(threadIdx.x / 32); c < staged; c += kAtATime * kWarps) {
          Acc values[kAtATime];
#pragma unroll
          for (int i = 0; i < kAtATime; ++i) {
            const uint32_t channel = first_channel + min(c + i * kWarps, existing - 1);  // what is past is not used
            const uint32_t group = kPure ? channel : channel / plan.out_channels;
            const uint32_t in_group = kPure ? 0 : channel - group * plan.out_channels;
            const int64_t in_all = int64_t{group} * plan.in_channels + in_channel;
            values[i] = to_accumulator(__ldg(place + in_all * stride.n + in_group * stride.c));
          }
#pragma unroll
          for (int i = 0; i < kAtATime; ++i) {
            if (c + i * kWarps < staged) to[c + i * kWarps] = values[i];
          }
        }
      }
    }
  }

  // Quads from `channel` of the block on; rows and quads are whole 16 bytes.
  __device__ __forceinline__ Quad<Acc> bias(int32_t channel) const {
    return *reinterpret_cast<const Quad<Acc>*>(data + channel);
  }
  __device__ __forceinline__ Quad<Acc> quad(int32_t row, int32_t channel) const {
    return *reinterpret_cast<const Quad<Acc>*>(data + (row + 1) * (kPitch > 0 ? kPitch : pitch) + channel);
  }
};

}  // namespace convt3d
