// What the kernel of a weight gradient receives, and what a block of it has to do.
#pragma once

#include <cuda.h>

#include "core/divisor.h"
#include "engines/wgmma/weight_grad/plan.h"

namespace convt3d {

struct WgmmaWeightGradParams {
  CUtensorMap input;
  CUtensorMap grad;
  WgmmaWeightGradPlan plan;
  Divisor by_tiles;
  Divisor by_parts[3];
  Divisor by_m_chunks;
  Divisor by_n_chunks;
  Divisor by_boxes[3];
  bool joins;  // the partial gradients of a call before
  float* partial;
  float* bias;  // partial gradients; null: not wanted
};

// One block's tile, and its share of the boxes. Blocks at work at the same time share boxes.
struct WgmmaGradWork {
  int32_t split;
  int32_t part[3];
  int32_t m_chunk;
  int32_t n_chunk;
  int32_t group;

  __device__ __forceinline__ explicit WgmmaGradWork(const WgmmaWeightGradParams& params) {
    int32_t rest = static_cast<int32_t>(blockIdx.x);
    int32_t tile = params.by_tiles.take(rest);
    split = rest;
#pragma unroll
    for (int i = 2; i >= 0; --i) part[i] = params.by_parts[i].take(tile);
    n_chunk = params.by_n_chunks.take(tile);
    m_chunk = params.by_m_chunks.take(tile);
    group = tile;
  }
};

}  // namespace convt3d
