// What the depthwise engine's kernels for tiles receive and share.
#pragma once

#include <type_traits>

#include "device/ptx/shared_memory.cuh"
#include "device/source.cuh"
#include "engines/depthwise/tile_plan.h"
#include "epilogue/epilogue.h"

namespace convt3d {

// What is loaded into a box.
template <typename T>
struct DepthwiseLoad {
  const T* data;
  Strides stride;
  int32_t size[3];
  int32_t box;  // of the plan
  bool masks;   // what is in the box already
};

constexpr int kDepthwiseMostLoads = 3;  // grad_output, its mask, the input

template <typename T>
struct DepthwiseTileParams {
  DepthwiseTilePlan plan;
  DepthwiseLoad<T> load[kDepthwiseMostLoads];  // in this order
  int32_t loads;
  const T* weight;
  Strides weight_stride;  // n: channel
  T* destination;
  Strides destination_stride;
  float* partial;       // of the weight gradient, [split][channel][depth][width][height]
  float* bias_partial;  // of the bias's, [split][channel]
  Epilogue epilogue;
};

// Hands `function` the number of taps, known to the compiler where it is the commonest.
template <typename Function>
__device__ __forceinline__ void with_taps(int32_t taps, Function&& function) {
  if (taps == 3) {
    function(std::integral_constant<int32_t, 3>());
  } else {
    function(taps);
  }
}

// Which tile of positions, of which image.
struct DepthwiseTile {
  int64_t image;
  int32_t at[3];

  __device__ __forceinline__ DepthwiseTile(const DepthwiseTilePlan& plan, int32_t number) {
    auto rest = static_cast<uint32_t>(number);
#pragma unroll
    for (int i = 2; i >= 0; --i) {
      const auto tiles = static_cast<uint32_t>(plan.tiles[i]);
      at[i] = static_cast<int32_t>(rest % tiles);
      rest /= tiles;
    }
    image = rest;
  }
};

}  // namespace convt3d
