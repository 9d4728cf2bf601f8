// What the kernel of the matmul engine is told.
#pragma once

#include <cstdint>

#include "core/divisor.h"
#include "device/source.cuh"
#include "engines/matmul/plan.h"
#include "epilogue/epilogue.h"

namespace convt3d {

template <typename T>
struct MatmulParams {
  const T* input;
  const T* weight;
  T* output;
  Strides input_stride;  // in elements, of the positions and of the channels
  Strides output_stride;
  int64_t weight_stride;  // from a row of the weight to the next
  Epilogue epilogue;
  MatmulPlan plan;
  MatmulLayout layout;
  Divisor by_size[3];  // of the input: width, height, depth
  Divisor by_volume;   // positions of an image
  Divisor by_taps[3];  // width, height, depth
  Divisor by_all_taps;
  Divisor by_channels;  // output channels of a group
  Divisor by_n_tiles;
  Divisor by_shares;  // groups x n_tiles
};

}  // namespace convt3d
