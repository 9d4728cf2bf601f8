// Weight -> the stream that the tensor-core kernel's ring reads, stage after stage:
// [group][block of M][outer residue][chunk][offset d, h, w][step of the chunk][plane of two][row][16 bytes].
#pragma once

#include "kernels/halo_params.h"
#include "kernels/matrix_element.cuh"

namespace convt3d {

constexpr int kPackHaloThreads = 256;

template <typename T>
struct PackHaloWeightParams {
  HaloPlan plan;
  const T* weight;
  Strides stride;  // n: input channel, c: output channel of the group, d h w: tap
  unsigned char* packed;
};

template <typename T>
__global__ void convt3d_pack_halo_weight(const __grid_constant__ PackHaloWeightParams<T> params) {
  constexpr int kPlaneChannels = kPieceChannels<T>;
  const HaloPlan& plan = params.plan;
  const int rows = 64 * plan.block_m_tiles;
  const int steps_in_chunk = plan.chunk_planes / 2;
  const int64_t pieces = plan.packed_bytes / 16;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; index < pieces; index += step) {
    const int row = static_cast<int>(index % rows);
    int64_t rest = index / rows;
    const int step_plane = static_cast<int>(rest % 2);
    rest /= 2;
    const int64_t step_index = rest;  // of the whole stream
    const int chunk_step = static_cast<int>(rest % steps_in_chunk);
    rest /= steps_in_chunk;
    const int chunks = plan.planes / plan.chunk_planes;
    // The rest of the stream is ragged: each outer residue has its own count of offsets.
    const int64_t per_block = static_cast<int64_t>(plan.entries) * chunks;
    int64_t in_block = rest % per_block;
    rest /= per_block;
    const int m_blocks = plan.m_tiles / plan.block_m_tiles;
    const int m_block = static_cast<int>(rest % m_blocks);
    const int64_t group = rest / m_blocks;
    int outer[3] = {0, 0, 0};
    int64_t count = 0;
    for (;;) {
      count = 1;
      for (int i = 0; i < 3; ++i) count *= plan.axis[i].taps[outer[i]].count;
      if (in_block < count * chunks) break;
      in_block -= count * chunks;
      if (++outer[1] == plan.axis[1].outer) {
        outer[1] = 0;
        ++outer[0];
      }
    }
    const int chunk = static_cast<int>(in_block / count);
    int entry = static_cast<int>(in_block % count);
    const HaloTaps& taps_w = plan.axis[2].taps[outer[2]];
    const HaloTaps& taps_h = plan.axis[1].taps[outer[1]];
    const HaloTaps& taps_d = plan.axis[0].taps[outer[0]];
    const int w = entry % taps_w.count;
    entry /= taps_w.count;
    const int h = entry % taps_h.count;
    const int d = entry / taps_h.count;

    const HaloSlab slab = halo_slab(plan, m_block * plan.block_m_tiles * 4 + row / 16);
    const int row_in_slab = row % 16;
    const int output_channel = slab.channel + (plan.pair_width ? row_in_slab % 8 : row_in_slab);
    const int tap_d = taps_d.tap[d][slab.depth];
    const int tap_h = taps_h.tap[h][slab.height];
    const int tap_w = taps_w.tap[w][plan.pair_width ? row_in_slab / 8 : slab.width];
    const int first_channel = (chunk * plan.chunk_planes + chunk_step * 2 + step_plane) * kPlaneChannels;
    alignas(16) T values[kPlaneChannels];
#pragma unroll
    for (int i = 0; i < kPlaneChannels; ++i) {
      const int channel = first_channel + i;
      values[i] = from_accumulator<T>(0.0f);
      if (output_channel < plan.out_channels && channel < plan.in_channels && tap_d >= 0 && tap_h >= 0 && tap_w >= 0) {
        values[i] = params.weight[(group * plan.in_channels + channel) * params.stride.n +
                                  output_channel * params.stride.c + params.stride.spatial(tap_d, tap_h, tap_w)];
      }
    }
    *reinterpret_cast<uint4*>(params.packed + step_index * plan.step_bytes +
                              (static_cast<int64_t>(step_plane) * rows + row) * 16) = to_matrix_piece<T>(values);
  }
}

}  // namespace convt3d
