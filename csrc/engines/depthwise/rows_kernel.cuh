// Depthwise forward, width contiguous in input and output and taps along the width known: a thread owns a vector of
// neighbouring outputs, both residues of the width included, in one row or, where depth
// and height have the width's taps, in the four rows of their residues, which read the same input.
#pragma once

#include "engines/depthwise/row_share.cuh"

namespace convt3d {

template <typename T, typename Taps>
struct DepthwiseWindow {
  static constexpr int kPositions = depthwise_vector(sizeof(T)) / Taps::kStride;  // u of one thread
  static constexpr int kSize = kPositions + Taps::kHigh - Taps::kLow;
  Accumulator<T> value[kSize];

  // `row` points to width 0, `first` is the position that offset 0 of the first u reads.
  __device__ __forceinline__ void load(const DepthwiseParams<T>& params, const T* row, int32_t first) {
    const int32_t size = params.source.size[2];
    const T* const place = row + first;
    if (params.source_vectors) {
      struct alignas(kPositions * sizeof(T)) Vector {
        T value[kPositions];
      };
#pragma unroll
      for (int i = 0; i < kSize; ++i) value[i] = 0;
      if (depthwise_inside(first, size)) {
        const Vector middle = load_vector<Vector>(place);
#pragma unroll
        for (int i = 0; i < kPositions; ++i) value[i - Taps::kLow] = to_accumulator(middle.value[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const int offset = i + Taps::kLow;
      if (offset >= 0 && offset < kPositions && params.source_vectors) continue;
      value[i] = depthwise_inside(first + offset, size) ? to_accumulator(__ldg(place + offset)) : Accumulator<T>(0);
    }
  }

 private:
  template <typename Vector>
  static __device__ __forceinline__ Vector load_vector(const T* source) {
    static_assert(sizeof(Vector) == 16 || sizeof(Vector) == 8, "one load");
    using Bits = std::conditional_t<sizeof(Vector) == 16, uint4, uint2>;
    Vector vector;
    *reinterpret_cast<Bits*>(&vector) = __ldg(reinterpret_cast<const Bits*>(source));
    return vector;
  }
};

template <typename T, typename Taps>
__device__ __forceinline__ void multiply_row(const DepthwiseWindow<T, Taps>& window, const Accumulator<T>* weights,
                                             Accumulator<T> (&sum)[depthwise_vector(sizeof(T))]) {
  struct alignas(Taps::kPadded * sizeof(Accumulator<T>)) Row {
    Accumulator<T> value[Taps::kPadded];
  };
  const Row row = *reinterpret_cast<const Row*>(weights);
#pragma unroll
  for (int residue = 0; residue < Taps::kStride; ++residue) {
#pragma unroll
    for (int tap = 0; tap < Taps::kTaps; ++tap) {
      if (!Taps::meets(residue, tap)) continue;
#pragma unroll
      for (int u = 0; u < DepthwiseWindow<T, Taps>::kPositions; ++u) {
        sum[u * Taps::kStride + residue] += window.value[u + Taps::offset(residue, tap) - Taps::kLow] * row.value[tap];
      }
    }
  }
}

template <typename T>
struct alignas(16) DepthwiseVector {
  static constexpr int kSize = depthwise_vector(sizeof(T));
  T value[kSize];
};

// Rows that no vector fits: a warp's outputs pass through shared memory, so that its stores are neighbours.
template <typename T>
struct DepthwiseRowStage {
  static constexpr int kVector = depthwise_vector(sizeof(T));
  T* destination[kDepthwiseThreads];
  DepthwiseVector<T> outputs[kDepthwiseThreads];
  int32_t count[kDepthwiseThreads];

  // All threads of a warp come here together.
  __device__ __forceinline__ void store(const DepthwiseVector<T>& vector, T* first, int32_t valid) {
    const uint32_t thread = threadIdx.x;
    const uint32_t lane = thread % 32;
    outputs[thread] = vector;
    destination[thread] = first;
    count[thread] = valid;
    __syncwarp();
    const uint32_t first_owner = thread - lane + lane / kVector;
    const int32_t place = static_cast<int32_t>(lane % kVector);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const uint32_t owner = first_owner + i * (32 / kVector);
      if (place < count[owner]) destination[owner][place] = outputs[owner].value[place];
    }
    __syncwarp();
  }
};

template <typename T, typename Taps, int kPair>
__global__ __launch_bounds__(kDepthwiseThreads,
                             sizeof(T) > 2 ? 8
                             : kPair == 2  ? 5
                             : Taps::kStride == 1
                                 ? 6
                                 : 8) void convt3d_depthwise_rows(const __grid_constant__ DepthwiseParams<T> params) {
  using Acc = Accumulator<T>;
  constexpr int kVector = depthwise_vector(sizeof(T));
  constexpr int kPositions = DepthwiseWindow<T, Taps>::kPositions;
  const DepthwisePlan& plan = params.plan;
  const DepthwiseAxis& depth = plan.axis[0];
  const DepthwiseAxis& height = plan.axis[1];
  const Strides& from = params.source.stride;
  const Strides& to = params.destination_stride;

  using Stage = DepthwiseRowStage<T>;
  static_assert(sizeof(Stage) == kDepthwiseRowStageBytes, "the plan reserves the stage's bytes before the weights");
  Stage& stage = *reinterpret_cast<Stage*>(dynamic_shared_memory);
  const DepthwiseRowShare share(plan);
  Acc* const weights = reinterpret_cast<Acc*>(dynamic_shared_memory + sizeof(Stage));
  stage_row_weights(params, share.channel, Taps::kPadded, weights);
  const T* const source = params.source.data + share.image * from.n + share.in_channel * from.c;
  T* const destination = params.destination + share.image * to.n + share.channel * to.c;
  const Acc bias = bias_of<T>(params.epilogue, share.channel);
  const int32_t width_first = share.lane * kPositions + plan.shift[2];
  const int32_t out_width = share.lane * kVector;
  const int32_t width_left = min(max(plan.axis[2].dst_size - out_width, 0), kVector);

#pragma unroll 1
  for (int step = 0; step < plan.steps; ++step) {
    const int32_t item = share.item + step * plan.slots;
    const bool exists = item < plan.items && width_left > 0;
    const int32_t unit_d = plan.by_units[1].quotient(item);
    const int32_t unit_h = plan.by_units[1].remainder(item, unit_d);

    Acc sum[kPair][kPair][kVector];
#pragma unroll
    for (int d = 0; d < kPair; ++d) {
#pragma unroll
      for (int h = 0; h < kPair; ++h) {
#pragma unroll
        for (int i = 0; i < kVector; ++i) sum[d][h][i] = bias;
      }
    }

    DepthwiseWindow<T, Taps> window;
#pragma unroll 1
    for (int c = 0; exists && c < plan.in_channels; ++c) {
      const T* const volume = source + c * from.c;
      const Acc* const channel_weights = weights + c * depth.taps * height.taps * Taps::kPadded;
      if constexpr (kPair == 2) {
#pragma unroll
        for (int offset_d = Taps::kLow; offset_d <= Taps::kHigh; ++offset_d) {
          const int32_t in_d = unit_d + plan.shift[0] + offset_d;
          if (!depthwise_inside(in_d, depth.src_size)) continue;
          const T* const plane = volume + in_d * from.d;
#pragma unroll
          for (int offset_h = Taps::kLow; offset_h <= Taps::kHigh; ++offset_h) {
            const int32_t in_h = unit_h + plan.shift[1] + offset_h;
            if (!depthwise_inside(in_h, height.src_size)) continue;
            window.load(params, plane + in_h * from.h, width_first);
            for_each_residue_pair<Taps>(offset_d, offset_h, [&](int d, int h, int row) {
              multiply_row(window, channel_weights + row * Taps::kPadded, sum[d][h]);
            });
          }
        }
      } else {
        const DepthwiseOutput output_d(depth, unit_d);
        const DepthwiseOutput output_h(height, unit_h);
        const DepthwiseResidue& taps_d = output_d.taps;
        const DepthwiseResidue& taps_h = output_h.taps;
#pragma unroll 1
        for (int j = 0; j < taps_d.tap_count; ++j) {
          const int32_t in_d = output_d.u + taps_d.first_offset + j * depth.offset_step;
          if (!depthwise_inside(in_d, depth.src_size)) continue;
          const int32_t tap_d = taps_d.first_tap + j * depth.tap_step;
#pragma unroll 1
          for (int k = 0; k < taps_h.tap_count; ++k) {
            const int32_t in_h = output_h.u + taps_h.first_offset + k * height.offset_step;
            if (!depthwise_inside(in_h, height.src_size)) continue;
            const int32_t tap_h = taps_h.first_tap + k * height.tap_step;
            window.load(params, volume + in_d * from.d + in_h * from.h, width_first);
            multiply_row(window, channel_weights + (tap_d * height.taps + tap_h) * Taps::kPadded, sum[0][0]);
          }
        }
      }
    }

    activate(params.epilogue, &sum[0][0][0], kPair * kPair * kVector);
#pragma unroll
    for (int d = 0; d < kPair; ++d) {
#pragma unroll
      for (int h = 0; h < kPair; ++h) {
        DepthwiseVector<T> vector;
#pragma unroll
        for (int i = 0; i < kVector; ++i) vector.value[i] = from_accumulator<T>(sum[d][h][i]);
        const int32_t out_d = unit_d * kPair + d;
        const int32_t out_h = unit_h * kPair + h;
        const bool inside = exists && out_d < depth.dst_size && out_h < height.dst_size;
        T* const first = destination + out_d * to.d + out_h * to.h + out_width;
        if (params.destination_vectors) {
          if (inside) *reinterpret_cast<uint4*>(first) = *reinterpret_cast<const uint4*>(&vector);
        } else {
          stage.store(vector, first, inside ? width_left : 0);
        }
      }
    }
  }
}

}  // namespace convt3d
