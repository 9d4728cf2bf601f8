// What the depthwise engine's kernels for patches receive, and how a thread reads a row of grad_output.
#pragma once

#include <type_traits>

#include "device/ptx/shared_memory.cuh"
#include "device/source.cuh"
#include "device/words.cuh"
#include "engines/depthwise/params.cuh"
#include "engines/depthwise/patch_plan.h"

namespace convt3d {

// Whether the assembler spills registers of some kernels where one more block has to fit a multiprocessor: it does not
// for 8.0 and 9.0.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 800 && __CUDA_ARCH__ != 900
constexpr bool kDepthwisePatchFewBlocks = true;
#else
constexpr bool kDepthwisePatchFewBlocks = false;
#endif

// A tensor's elements, by bytes: the compiler then adds constants in the loads themselves.
struct DepthwisePatchTensor {
  const unsigned char* data;
  Strides step;  // bytes
};

template <typename T>
struct DepthwisePatchParams {
  DepthwisePatchPlan plan;
  DepthwisePatchTensor source;  // grad_output
  DepthwisePatchTensor input;   // of the weight gradient
  const T* weight;
  Strides weight_stride;  // n: channel
  T* destination;
  Strides destination_stride;
  float* partial;       // of the weight gradient, [split][channel][depth][height][width]
  float* bias_partial;  // of the bias's, [split][channel]
};

// kCount neighbours in one register or several, as they are in memory.
template <typename T, int kCount>
struct DepthwisePiece {
  static constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  static_assert(kBytes == 2 || kBytes == 4 || kBytes == 8 || kBytes == 16, "one load");
  using Bits = WordsOf<kBytes>;
  // Two bytes lie in a register of their own: the compiler would merge and split halves of one.
  std::conditional_t<kBytes == 2, uint32_t, Bits> bits;

  // Zeros where it does not exist; without a branch.
  __device__ __forceinline__ void load_if(bool exists, const unsigned char* from) {
    bits = {};
    if (exists) bits = __ldg(reinterpret_cast<const Bits*>(from));
  }
  __device__ __forceinline__ float value(int i) const { return to_accumulator(reinterpret_cast<const T*>(&bits)[i]); }
};

// Bit i: whether place `first + i` is one of `size`, for i below 32.
__device__ __forceinline__ uint32_t existing_places(int32_t first, int32_t size) {
  const int32_t before = min(max(-first, 0), 31);
  const int32_t end = min(max(size - first, 0), 31);
  return ((1u << end) - 1) & ~((1u << before) - 1);
}

// What kWidth neighbours along the width read of one row: (kWidth - 1) * stride + taps columns.
template <typename T, typename Taps, DepthwisePatchAccess kAccess, int kWidth, int kChannels>
struct DepthwisePatchRow {
  static constexpr int kColumns = (kWidth - 1) * Taps::kStride + Taps::kTaps;
  DepthwisePiece<T, kChannels> column[kColumns];

  // `first`: of column 0, `step` bytes before the next one where channels are contiguous; zeros where a column does not
  // exist.
  __device__ __forceinline__ void load(const unsigned char* first, int64_t step, uint32_t existing) {
    constexpr bool kByChannels = kAccess == DepthwisePatchAccess::kChannels;
#pragma unroll
    for (int i = 0; i < kColumns; ++i, first += kByChannels ? step : static_cast<int64_t>(sizeof(T))) {
      column[i].load_if((existing >> i & 1) != 0, first);
    }
  }
  __device__ __forceinline__ float value(int i, int c) const { return column[i].value(c); }
};
template <typename T, typename Taps, int kWidth>
struct DepthwisePatchRow<T, Taps, DepthwisePatchAccess::kRows, kWidth, 1> {
  static constexpr int kColumns = (kWidth - 1) * Taps::kStride + Taps::kTaps;
  static constexpr int kBefore = Taps::kPadding;
  static constexpr int kMiddle = kWidth * Taps::kStride;
  static constexpr int kAfter = kColumns - kBefore - kMiddle;
  static constexpr int kVector = depthwise_patch_vector(sizeof(T), kWidth, Taps::kStride);
  static_assert(kAfter >= 0, "vectors lie within the columns");
  static constexpr int kSize = sizeof(T);
  DepthwisePiece<T, 1> before[kBefore];
  DepthwisePiece<T, kVector> middle[kMiddle / kVector];
  DepthwisePiece<T, 1> after[kAfter > 0 ? kAfter : 1];

  __device__ __forceinline__ void load(const unsigned char* first, int64_t, uint32_t existing) {
#pragma unroll
    for (int i = 0; i < kBefore; ++i) before[i].load_if((existing >> i & 1) != 0, first + i * kSize);
#pragma unroll
    for (int i = 0; i < kMiddle; i += kVector) {
      middle[i / kVector].load_if((existing >> (kBefore + i) & 1) != 0, first + (kBefore + i) * kSize);
    }
#pragma unroll
    for (int i = 0; i < kAfter; ++i) {
      constexpr int kFirst = kBefore + kMiddle;
      after[i].load_if((existing >> (kFirst + i) & 1) != 0, first + (kFirst + i) * kSize);
    }
  }
  __device__ __forceinline__ float value(int i, int) const {
    if (i < kBefore) return before[i].value(0);
    const int rest = i - kBefore;
    return rest < kMiddle ? middle[rest / kVector].value(rest % kVector) : after[rest - kMiddle].value(0);
  }
};

}  // namespace convt3d
