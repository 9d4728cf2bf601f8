// Weight -> the stream that the tensor-core kernel's ring reads, stage after stage:
// [group][tile of M][outer phase][chunk][set][offset d, h, w][step of the tap][term][half of the step][row][16 bytes],
// the steps of a set filled up to whole stages.
#pragma once

#include "kernels/halo_params.h"
#include "kernels/hopper.cuh"
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
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  hopper::allow_dependents();  // the multiplication may set up and load its first tiles
#endif
  constexpr int kPlaneChannels = kPieceChannels<T>;
  const HaloPlan& plan = params.plan;
  const int64_t pieces = plan.packed_bytes / 16;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; index < pieces; index += stride) {
    const int row = static_cast<int>(index % 64);
    const int half = static_cast<int>(index / 64 % 2);
    const int block = static_cast<int>(index / 128 % kHaloStageBlocks);
    const int term = block & (plan.terms - 1);
    int stage = static_cast<int>(index / (128 * kHaloStageBlocks) % plan.stages());
    const int64_t tile_index = index / (128 * kHaloStageBlocks) / plan.stages();
    const int m_tile = static_cast<int>(tile_index % plan.m_tiles);
    const int64_t group = tile_index / plan.m_tiles;

    int phase_index = 0;
    while (stage >= plan.first_stage(phase_index + 1)) ++phase_index;
    stage -= plan.first_stage(phase_index);
    const int* first = plan.segment_first + phase_index * plan.sets;
    const int per_chunk = first[plan.sets] - first[0];
    const int chunk = stage / per_chunk;
    stage %= per_chunk;
    const int set = stage >= first[1] - first[0] ? 1 : 0;
    const int step = (stage - (first[set] - first[0])) * plan.stage_steps() + block / plan.terms;
    const bool filler = step >= plan.segment_steps[phase_index * plan.sets + set];
    const HaloPhase phase = halo_phase(plan, phase_index, set);
    const HaloTaps& taps_d = plan.axis[0].taps[phase.depth];
    const HaloTaps& taps_h = plan.axis[1].taps[phase.height];
    const HaloTaps& taps_w = plan.axis[2].taps[phase.width];
    const int tap_step = step % plan.tap_steps;
    int entry = filler ? 0 : step / plan.tap_steps;
    const int w = entry % taps_w.count;
    entry /= taps_w.count;
    const int h = entry % taps_h.count;
    const int d = entry / taps_h.count;

    const HaloSlab slab = halo_slab(plan, m_tile * 4 + row / 16);
    const int row_in_slab = row % 16;
    const int output_channel =
        slab.channel + (plan.pair_rows ? row_in_slab % 8 : row_in_slab) + (plan.channel_sets() ? 16 * set : 0);
    const int tap_d = taps_d.tap[d][slab.depth];
    const int tap_h = taps_h.tap[h][slab.height];
    const int tap_w = taps_w.tap[w][plan.pair_rows ? row_in_slab / 8 : slab.width];
    const int first_channel = ((chunk * plan.tap_steps + tap_step) * 2 + half) * kPlaneChannels;
    // Of the layer's groups that are joined: outside its own an output channel has no weights.
    const int group_inputs = plan.in_channels / plan.joined;
    const int group_outputs = plan.out_channels / plan.joined;
    const int joined_group = output_channel / group_outputs;
    alignas(16) T values[kPlaneChannels];
#pragma unroll
    for (int i = 0; i < kPlaneChannels; ++i) {
      const int channel = first_channel + i;
      values[i] = from_accumulator<T>(0.0f);
      if (!filler && output_channel < plan.out_channels && channel / group_inputs == joined_group && tap_d >= 0 &&
          tap_h >= 0 && tap_w >= 0) {
        values[i] = params.weight[(group * plan.in_channels + channel) * params.stride.n +
                                  (output_channel - joined_group * group_outputs) * params.stride.c +
                                  params.stride.spatial(tap_d, tap_h, tap_w)];
      }
    }
    uint4 piece = *reinterpret_cast<const uint4*>(values);
    if (plan.terms == 1) {
      piece = to_matrix_piece<T>(values);
    } else if (term == 1) {
      piece = low_piece(piece);
    }
    *reinterpret_cast<uint4*>(params.packed + index * 16) = piece;
  }
}

}  // namespace convt3d
