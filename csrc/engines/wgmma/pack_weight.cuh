// Weight -> the packed weight, stage after stage in the order of plan/k_order.h, which the kernel's pipeline reads.
// Threads share the work as plan/packing.h says: a warp reads and writes whole sectors of memory.
#pragma once

#include "device/hopper.cuh"
#include "device/matrix_element.cuh"
#include "engines/wgmma/params.h"
#include "engines/wgmma/plan/packing.h"

namespace convt3d {

constexpr int kPackWgmmaThreads = 256;

template <typename T>
struct PackWgmmaWeightParams {
  WgmmaPlan plan;
  const T* weight;
  Strides stride;        // n: input channel, c: output channel, of a group; d h w: tap
  int64_t group_stride;  // of the layer's groups
  unsigned char* packed;
  uint32_t* counters;  // of work tiles: cleared
  WgmmaPacking packing;
};

template <typename T>
__global__ void __launch_bounds__(kPackWgmmaThreads, 4)
    convt3d_pack_halo_weight(const __grid_constant__ PackWgmmaWeightParams<T> params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // elsewhere an empty body, as of the multiplication
  hopper::allow_dependents();           // which may set up and load its first tiles
  constexpr int kPlaneChannels = kPieceChannels<T>;
  const WgmmaProduct& product = params.plan.product;
  const WgmmaArrangement& arrangement = params.plan.arrangement;
  const WgmmaLoops& loops = params.plan.loops;
  const WgmmaPacking& packing = params.packing;
  if (blockIdx.x == 0) {
    for (int i = static_cast<int>(threadIdx.x); i < kWgmmaMaxClasses; i += static_cast<int>(blockDim.x)) {
      params.counters[i] = 0;
    }
  }
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= packing.threads) return;
  int32_t rest = static_cast<int32_t>(index);
  const int entry_log = packing.warp_entries_log;
  const int lane = rest % 32;
  rest /= 32;
  const int entry = (packing.by_warp_entries.take(rest) << entry_log) + (lane & ((1 << entry_log) - 1));
  const int row_warps_log = kWgmmaTileRowsLog - 5 + entry_log;
  const int row = ((rest & ((1 << row_warps_log) - 1)) << (5 - entry_log)) + (lane >> entry_log);
  rest >>= row_warps_log;
  const int m_tile = packing.by_m_tiles.take(rest);
  const int group = product.by_groups.take(rest);
  const int first_step = rest * packing.part_steps;

  // Which loop, and which of its K steps on a chunk comes first.
  if (entry >= packing.entries) return;
  const bool filler = entry >= packing.taps;
  const int16_t* firsts = filler ? packing.first_filler : packing.first_tap;
  int step = filler ? entry - packing.taps : entry;
  int loop = 0;
#pragma unroll
  for (int further = kWgmmaMaxLoops / 2; further > 0; further /= 2) {
    if (firsts[loop + further] <= step) loop += further;
  }
  const int numbered = step - firsts[loop];  // among the loop's taps or fillers
  step = numbered * (filler ? 1 : loops.tap_steps);
  const int phase_index = loops.sets.quotient(loop);
  const int set = loops.sets.remainder(loop);

  // The weights of the row: where the first channel's is, and the channels that have any.
  const WgmmaPhase phase = arrangement.phase(phase_index, set);
  const WgmmaTaps& taps_d = arrangement.axis[0].taps[phase.depth];
  const WgmmaTaps& taps_h = arrangement.axis[1].taps[phase.height];
  const WgmmaTaps& taps_w = arrangement.axis[2].taps[phase.width];
  const WgmmaTapNumbers tap = tap_numbers(filler ? 0 : numbered, max(1, taps_w.count), max(1, taps_h.count));
  const WgmmaSlab slab = arrangement.slab(product, m_tile * kWgmmaTileSlabs + row / kWgmmaSlabRows);
  const int row_in_slab = row % kWgmmaSlabRows;
  const int output_channel = slab.channel + (arrangement.width_pairs() ? row_in_slab % 8 : row_in_slab) +
                             (arrangement.channel_sets() ? kWgmmaSlabRows * set : 0);
  const int tap_d =
      taps_d.tap[tap.depth][min(slab.depth, kWgmmaMaxStride - 1)];  // slabs that fill a tile are past the last depth
  const int tap_h = taps_h.tap[tap.height][slab.height];
  const int tap_w = taps_w.tap[tap.width][arrangement.width_pairs() ? row_in_slab / 8 : slab.width];
  const bool exists = !filler && output_channel < product.out_channels && tap_d >= 0 && tap_h >= 0 && tap_w >= 0;
  // Where groups of the layer are joined, an output channel has no weights outside its own group.
  const int joined_group = packing.by_outputs.quotient(output_channel);
  const int first_channel = exists ? joined_group * packing.group_inputs : 0;
  const int last_channel = exists ? first_channel + packing.group_inputs : 0;
  const T* weight = params.weight;
  if (exists) {
    weight += (static_cast<int64_t>(group) * product.joined + joined_group) * params.group_stride +
              packing.by_outputs.remainder(output_channel, joined_group) * params.stride.c +
              params.stride.spatial(tap_d, tap_h, tap_w);
  }

  const int64_t first_stage =
      loops.packed_stage(static_cast<int64_t>(group) * arrangement.m_tiles + m_tile, phase_index) + loops.first[loop] -
      loops.first[phase_index * loops.sets];
  const int chunk_stages = loops.chunk_stages(phase_index);
  if (filler) step += loops.steps[loop];
  for (int k = first_step; k < min(first_step + packing.part_steps, packing.steps); ++k) {
    const int chunk = packing.by_tap_steps.quotient(k);
    const int tap_step = packing.by_tap_steps.remainder(k, chunk);
    if (filler && tap_step > 0) continue;
    const int at = step + tap_step;
    const int64_t stage = first_stage + chunk * chunk_stages + loops.stage_of(at);
    unsigned char* to = params.packed + stage * kWgmmaWeightStageBytes +
                        loops.step_in_stage(at) * product.terms * kWgmmaSliceBytes + row * 16;
    alignas(16) T values[2][kPlaneChannels];
    int channel = 2 * k * kPlaneChannels;
    const T* from = weight + (channel - first_channel) * params.stride.n;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kPlaneChannels; ++i) {
        values[half][i] = from_accumulator<T>(0.0f);
        if (channel >= first_channel && channel < last_channel) values[half][i] = __ldg(from);
        from += params.stride.n;
        ++channel;
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 piece = *reinterpret_cast<const uint4*>(values[half]);
      uint4* half_to = reinterpret_cast<uint4*>(to + half * (kWgmmaSliceBytes / 2));
      if (product.terms == 1) {
        *half_to = to_matrix_piece<T>(values[half]);
      } else {
        half_to[0] = piece;
        half_to[kWgmmaSliceBytes / 16] = low_piece(piece);
      }
    }
  }
  // Which ends first, as what follows waits for this kernel alone.
  if (params.plan.packs_beside) hopper::wait_for_predecessors();
#endif
}

}  // namespace convt3d
