// Weights of a block's output channels in shared memory, [input channel of a group][tap][channel], so that a thread
// reads a quad of channels at once; a row before them holds the bias.
#pragma once

#include "engines/depthwise/params.cuh"

namespace convt3d {

// A thread's share of channels.
struct DepthwiseChannelShare : DepthwiseShare {
  int64_t image;
  int32_t channel;       // first channel of its quad
  int32_t lane_channel;  // the same channel, from the block's first one on

  __device__ __forceinline__ explicit DepthwiseChannelShare(const DepthwisePlan& plan)
      : DepthwiseShare(plan),
        image(volume),
        channel(lane * kQuad),
        lane_channel(static_cast<int32_t>(threadIdx.x & (plan.lanes - 1)) * kQuad) {}
};

// `Pitch`: int32_t, or a std::integral_constant where the compiler is to know it.
template <typename T, typename Pitch>
struct DepthwiseChannelWeights {
  using Acc = Accumulator<T>;
  static_assert(kDepthwiseChannels == kQuad, "a thread owns a quad of channels");
  Acc* data;
  Pitch pitch;  // from a row to the next, padded: the threads that stage neighbouring taps meet few banks twice

  __device__ __forceinline__ explicit DepthwiseChannelWeights(Pitch of_rows)
      : data(reinterpret_cast<Acc*>(dynamic_shared_memory)), pitch(of_rows) {}

  // By all threads of a block, those of `lane_tile`, which wait for each other: several loads at a time. kPure: one
  // input and one output channel a group.
  template <bool kPure>
  __device__ __forceinline__ void stage(const DepthwiseParams<T>& params, int32_t lane_tile) const {
    const DepthwisePlan& plan = params.plan;
    const Strides& stride = params.weight_stride;
    constexpr int kAtATime = kPure ? 16 : 4;
    constexpr int kWarps = kDepthwiseThreads / 32;
    const int32_t staged = plan.lanes * kQuad;
    const int32_t first_channel = lane_tile * staged;
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
    __syncthreads();
  }

  // Quads from `channel` of the block on; rows and quads are whole 16 bytes.
  __device__ __forceinline__ Quad<Acc> bias(int32_t channel) const {
    return *reinterpret_cast<const Quad<Acc>*>(data + channel);
  }
  __device__ __forceinline__ Quad<Acc> quad(int32_t row, int32_t channel) const {
    return *reinterpret_cast<const Quad<Acc>*>(data + (row + 1) * pitch + channel);
  }
};

// A quad as plain bits until it is used: a test of each element of a half quad would cost as much as its product.
template <typename T>
using QuadBits = std::conditional_t<sizeof(T) == 2, uint2, uint4>;

// A row of taps along the width, the weights from `first_row` on, with a row of the input: both residues' outputs.
template <typename Taps, typename T, typename Pitch, int kWindow, int kOutputs>
__device__ __forceinline__ void multiply_quads(const DepthwiseChannelWeights<T, Pitch>& weights, int32_t lane_channel,
                                               int32_t first_row, const QuadBits<T> (&window)[kWindow],
                                               Accumulator<T> (&sum)[kOutputs][kQuad]) {
  static_assert(sizeof(QuadBits<T>) == sizeof(Quad<T>), "one load");
#pragma unroll
  for (int tap = 0; tap < Taps::kTaps; ++tap) {
    const Quad<Accumulator<T>> weight = weights.quad(first_row + tap, lane_channel);
#pragma unroll
    for (int residue = 0; residue < Taps::kStride; ++residue) {
      if (!Taps::meets(residue, tap)) continue;
#pragma unroll
      for (int u = 0; u < kOutputs / Taps::kStride; ++u) {
        const Quad<T> value = *reinterpret_cast<const Quad<T>*>(&window[u + Taps::offset(residue, tap) - Taps::kLow]);
#pragma unroll
        for (int i = 0; i < kQuad; ++i) {
          sum[u * Taps::kStride + residue][i] += to_accumulator(value.value[i]) * weight.value[i];
        }
      }
    }
  }
}

}  // namespace convt3d
