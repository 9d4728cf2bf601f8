// Element types, the type each accumulates in, and loads and stores of four neighbouring channels (a quad).
#pragma once

#include "core/problem.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace convt3d {

template <typename T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
__device__ __forceinline__ Accumulator<T> to_accumulator(T value) {
  return static_cast<Accumulator<T>>(value);
}
template <>
__device__ __forceinline__ float to_accumulator(__half value) {
  return __half2float(value);
}
template <>
__device__ __forceinline__ float to_accumulator(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

// Rounds once, to nearest even.
template <typename T, typename From>
__device__ __forceinline__ T from_accumulator(From value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

// Two 16-bit elements, each rounded once, to nearest even.
template <typename T>
__device__ __forceinline__ uint32_t rounded_pair(float first, float second) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}

// All bits of those halves of a word, two 16-bit elements, that are at most zero; a NaN is not.
template <typename T>
__device__ __forceinline__ uint32_t halves_at_most_zero(uint32_t pair) {
  using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
  const uint32_t zero = 0;
  return __hle2_mask(*reinterpret_cast<const Pair*>(&pair), *reinterpret_cast<const Pair*>(&zero));
}

constexpr int kQuad = 4;

// sizeof(Quad<double>) is 32, two of the widest loads.
template <typename T>
struct alignas(sizeof(T) >= 4 ? 16 : 8) Quad {
  T value[kQuad];
};

template <typename T>
__device__ __forceinline__ Quad<T> zero_quad() {
  Quad<T> quad;
#pragma unroll
  for (int i = 0; i < kQuad; ++i) quad.value[i] = from_accumulator<T>(Accumulator<T>(0));
  return quad;
}

template <typename T>
__device__ __forceinline__ Quad<T> load_quad_vector(const T* source) {
  Quad<T> quad;
  if constexpr (sizeof(T) == 2) {
    *reinterpret_cast<uint2*>(&quad) = __ldg(reinterpret_cast<const uint2*>(source));
  } else {
    constexpr int kVectors = sizeof(Quad<T>) / sizeof(uint4);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      reinterpret_cast<uint4*>(&quad)[i] = __ldg(reinterpret_cast<const uint4*>(source) + i);
    }
  }
  return quad;
}

template <typename T>
__device__ __forceinline__ void store_quad_vector(T* destination, const Quad<T>& quad) {
  if constexpr (sizeof(T) == 2) {
    *reinterpret_cast<uint2*>(destination) = *reinterpret_cast<const uint2*>(&quad);
  } else {
    constexpr int kVectors = sizeof(Quad<T>) / sizeof(uint4);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      reinterpret_cast<uint4*>(destination)[i] = reinterpret_cast<const uint4*>(&quad)[i];
    }
  }
}

template <typename T>
constexpr DataType kDataType = std::is_same_v<T, double>   ? DataType::kFloat64
                               : std::is_same_v<T, float>  ? DataType::kFloat32
                               : std::is_same_v<T, __half> ? DataType::kFloat16
                                                           : DataType::kBFloat16;

}  // namespace convt3d
