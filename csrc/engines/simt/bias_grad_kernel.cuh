// Bias gradient: sum of grad_output over all but the channels, the ReLU mask applied while loading. Blocks sum splits
// of the positions; device/ordered_sum.cuh adds the splits. Both in a fixed order. Memory is the limit: a thread reads
// 16 bytes at once where channels are neighbours, or positions, and has several such reads on their way.
#pragma once

#include "device/mask.cuh"
#include "device/ordered_sum.cuh"
#include "device/overlap.cuh"
#include "device/positions.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/source.cuh"
#include "engines/simt/plan.h"

namespace convt3d {

template <typename T>
struct BiasGradParams {
  Source<T> grad_output;
  PositionGrid grid;  // of positions or, where these lie in runs, of runs
  int64_t channels;
  int32_t lane_bits;  // of the number of threads side by side along the channels
  int64_t channel_blocks;
  int64_t run;         // neighbouring positions
  int64_t run_pieces;  // at most, of 16 bytes
  int64_t units;       // positions, or pieces of all runs
  int64_t split_units;
  int64_t splits;
  double* partial;  // [split][channel]
};

// Elements that are neighbours in memory, of which some exist.
template <typename T, int kCount>
struct BiasGradPiece {
  alignas(kCount * sizeof(T) == 16 ? 16 : sizeof(T)) T value[kCount];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (T& element : value) element = from_accumulator<T>(Accumulator<T>(0));
  }
  // All elements, from an aligned address on.
  __device__ __forceinline__ void read(const T* from) {
    if constexpr (kCount * sizeof(T) == 16) {
      *reinterpret_cast<uint4*>(value) = __ldg(reinterpret_cast<const uint4*>(from));
    } else {
      value[0] = __ldg(from);
    }
  }
  // Elements `begin` to `end` alone, from any address on.
  __device__ __forceinline__ void read(const T* from, int32_t begin, int32_t end) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i >= begin && i < end) value[i] = __ldg(from + i);
    }
  }
  __device__ __forceinline__ void apply(const BiasGradPiece& mask) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) apply_mask(value[i], mask.value[i]);
  }
};

// What a thread adds up: the channels of its positions' pieces or, of runs, one channel. Few values meet in float32, as
// the device may have few units for double; these sums meet in double, where a channel's values may cancel.
template <typename T, bool kMasked, BiasGradRead kRead>
class BiasGradSums {
 public:
  static constexpr int kCount = kRead == BiasGradRead::kElements ? 1 : kBiasGradBytes / static_cast<int>(sizeof(T));
  static constexpr int kSums = kRead == BiasGradRead::kRuns ? 1 : kCount;

  double sum[kSums];

  __device__ __forceinline__ explicit BiasGradSums(const BiasGradParams<T>& params) : params_(params) {}

  // Where a thread begins, found before there are sums that would have to be kept meanwhile: it divides.
  struct Walk {
    Position position;
    int64_t piece = 0;

    __device__ __forceinline__ Walk(const BiasGradParams<T>& params, int64_t unit) {
      if constexpr (kRead == BiasGradRead::kRuns) {
        const int64_t run = unit / params.run_pieces;
        piece = unit - run * params.run_pieces;
        unit = run;
      }
      position = params.grid.at(unit);
    }
    __device__ __forceinline__ void advance(const BiasGradParams<T>& params, int32_t apart) {
      if constexpr (kRead == BiasGradRead::kRuns) {
        for (piece += apart; piece >= params.run_pieces; piece -= params.run_pieces) params.grid.advance(position, 1);
      } else {
        params.grid.advance(position, static_cast<uint32_t>(apart));
      }
    }
  };

  // `count` units, `apart` from each other.
  __device__ __forceinline__ void add(Walk& walk, int64_t channel, int32_t apart, int64_t count) {
    clear();
    for (; count >= kAtOnce; count -= kAtOnce) add_some<kAtOnce>(walk, channel, apart);
    for (; count > 0; --count) add_some<1>(walk, channel, apart);
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (double& value : sum) value = 0;
  }

 private:
  using Piece = BiasGradPiece<T, kCount>;
  static constexpr int kAtOnce = 4;  // reads on their way

  __device__ __forceinline__ static int64_t offset_of(const Position& position, const Strides& stride) {
    return position.n * stride.n + stride.spatial(position.d, position.h, position.w);
  }

  template <int kUnits>
  __device__ __forceinline__ void add_some(Walk& walk, int64_t channel, int32_t apart) {
    const Source<T>& source = params_.grad_output;
    Piece pieces[kUnits];
    [[maybe_unused]] Piece masks[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int64_t at = offset_of(walk.position, source.stride) + channel * source.stride.c;
      const int64_t mask_at =
          kMasked ? offset_of(walk.position, source.mask_stride) + channel * source.mask_stride.c : 0;
      if constexpr (kRead == BiasGradRead::kRuns) {
        // Pieces begin at multiples of 16 bytes, the first one at or before the run; the mask's lie alike.
        const auto before = static_cast<int64_t>(reinterpret_cast<uintptr_t>(source.data + at) % 16 / sizeof(T));
        const int64_t from = walk.piece * kCount - before;
        if (from >= 0 && from + kCount <= params_.run) {
          pieces[i].read(source.data + at + from);
          if constexpr (kMasked) masks[i].read(source.mask + mask_at + from);
        } else {
          pieces[i].clear();
          if constexpr (kMasked) masks[i].clear();
          const auto begin = static_cast<int32_t>(max(int64_t{0}, -from));
          const auto end = static_cast<int32_t>(min(int64_t{kCount}, params_.run - from));
          pieces[i].read(source.data + at + from, begin, end);
          if constexpr (kMasked) masks[i].read(source.mask + mask_at + from, begin, end);
        }
      } else {
        pieces[i].read(source.data + at);
        if constexpr (kMasked) masks[i].read(source.mask + mask_at);
      }
      walk.advance(params_, apart);
    }
    Accumulator<T> some[kSums] = {};
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      if constexpr (kMasked) pieces[i].apply(masks[i]);
#pragma unroll
      for (int k = 0; k < kCount; ++k) some[k % kSums] += to_accumulator(pieces[i].value[k]);
    }
#pragma unroll
    for (int k = 0; k < kSums; ++k) sum[k] += some[k];
  }

  const BiasGradParams<T>& params_;
};

template <typename T, bool kMasked, BiasGradRead kRead>
__global__ void __launch_bounds__(kBiasGradThreads, kBiasGradBlocks)
    convt3d_bias_grad(const __grid_constant__ BiasGradParams<T> params) {
  using Sums = BiasGradSums<T, kMasked, kRead>;
  wait_for_kernel_before();  // which may still have the workspace
  begin_dependents();        // what follows need not wait for that kernel then
  auto& shared = static_shared_memory<double[kBiasGradThreads]>();
  const int lanes = 1 << params.lane_bits;
  const int unit_bits = kBiasGradThreadBits - params.lane_bits;
  const int64_t blocks = params.channel_blocks * params.splits;
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t split = block / params.channel_blocks;
    const int64_t first = split * params.split_units + (threadIdx.x >> params.lane_bits);
    typename Sums::Walk walk(params, first);
    const int64_t channel_block = block - split * params.channel_blocks;
    const int64_t channel = ((channel_block << params.lane_bits) + threadIdx.x % lanes) * Sums::kSums;
    const int64_t left = min((split + 1) * params.split_units, params.units) - first;
    Sums sums(params);
    if (channel < params.channels && left > 0) {
      sums.add(walk, channel, 1 << unit_bits, (left + (1 << unit_bits) - 1) >> unit_bits);
    } else {
      sums.clear();
    }
    for (int k = 0; k < Sums::kSums; ++k) {
      const double total = sum_over_threads(sums.sum[k], lanes, shared);
      if (static_cast<int>(threadIdx.x) < lanes && channel < params.channels) {
        params.partial[split * params.channels + channel + k] = total;
      }
    }
  }
}

}  // namespace convt3d
