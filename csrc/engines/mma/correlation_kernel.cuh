// Forward and input gradient: a box of positions, some channels and some phases a block.
#pragma once

#include "device/ptx/async_copy.cuh"
#include "device/ptx/shared_memory.cuh"
#include "engines/mma/pack_weight.cuh"
#include "engines/mma/store.cuh"

namespace convt3d::mma {

// The stages of a block, counted through its phases: chunks of channels and, of split axes, taps.
struct StageCursor {
  int32_t unit[3] = {0, 0, 0};
  int32_t chunk = 0;
  int32_t buffer = 0;

  template <typename T>
  __device__ __forceinline__ void advance(const CorrelationParams<T>& params) {
    buffer = buffer + 1 == params.buffers ? 0 : buffer + 1;
#pragma unroll
    for (int i = 2; i >= 0; --i) {
      if (++unit[i] < params.tile.tile.axis[i].stages()) return;
      unit[i] = 0;
    }
    chunk = chunk + 1 == params.chunks ? 0 : chunk + 1;
  }

  template <typename T>
  __device__ __forceinline__ TileStage stage(const CorrelationParams<T>& params, const BlockShare& share,
                                             uint32_t tiles) const {
    const int32_t before = chunk * params.chunk_steps * (kStepBytes / static_cast<int32_t>(sizeof(T)));
    TileStage result;
    result.image = static_cast<int32_t>(share.image);
    result.first_w = share.first[2];
#pragma unroll
    for (int i = 0; i < 3; ++i) result.unit[i] = unit[i];
    result.first_channel = share.source_channel + before;
    result.channels = params.k_channels - before;
    result.to = tiles + static_cast<uint32_t>(buffer * params.tile.tile.bytes());
    return result;
  }
};

// The residues of a phase, of which the width's come first.
template <typename T>
__device__ __forceinline__ Residue residue_of(const CorrelationParams<T>& params, int32_t phase) {
  Residue residue;
  residue.at[2] = phase % params.residues[2].count;
  phase /= params.residues[2].count;
  residue.at[1] = phase % params.residues[1].count;
  residue.at[0] = phase / params.residues[1].count;
  return residue;
}

// Steps of K of each of a block's phases, in order, for one chunk: bytes from a position's row to the row and the
// channels that it is multiplied with. Stages of split axes are neighbours.
template <typename T>
__device__ __forceinline__ void fill_steps(const CorrelationParams<T>& params, int32_t first_phase, int32_t* table) {
  const StagedTile& tile = params.tile.tile;
  for (int32_t p = 0; p < params.block_phases; ++p) {
    const Residue residue = residue_of(params, first_phase + p);
    int32_t counts[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) counts[i] = params.residues[i].tap_count[residue.at[i]];
    const int32_t count = counts[0] * counts[1] * counts[2] * params.chunk_steps;
    for (int32_t s = static_cast<int32_t>(threadIdx.x); s < count; s += static_cast<int32_t>(blockDim.x)) {
      int32_t rest = s / params.chunk_steps;
      const int32_t k_step = s - rest * params.chunk_steps;
      int32_t row = 0;
#pragma unroll
      for (int i = 2; i >= 0; --i) {
        const int32_t number = rest % counts[i];
        rest /= counts[i];
        const int32_t tap = params.residues[i].first_tap[residue.at[i]] + number * params.residues[i].tap_step;
        row += tile.axis[i].shift[tap] * tile.stride[i + 1];
      }
      table[s] = row * tile.pitch + k_step * kStepBytes;
    }
    table += count;
  }
}

template <typename T, int kTerms, Shape kShape>
__global__ void __launch_bounds__(shape_extent(kShape, kTerms).threads(), shape_extent(kShape, kTerms).blocks)
    convt3d_mma_correlation(const __grid_constant__ CorrelationParams<T> params) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // elsewhere an empty body, which the plan never chooses
  constexpr ShapeExtent kExtent = shape_extent(kShape, kTerms);
  using Product = WarpProduct<T, kTerms, kExtent.warp_m, kExtent.warp_n>;
  const StagedTile& tile = params.tile.tile;
  const SharedLayout layout(kExtent.m(), params.table_steps, tile, 0, 0);
  auto* const offsets = reinterpret_cast<int64_t*>(dynamic_shared_memory + layout.offsets);
  auto* steps = reinterpret_cast<int32_t*>(dynamic_shared_memory + layout.steps);
  auto* const coordinates = reinterpret_cast<int32_t*>(dynamic_shared_memory + layout.coordinates);
  unsigned char* const staging = dynamic_shared_memory + layout.staging;
  const uint32_t tiles = hopper::shared_address(staging) +
                         (params.stores_channels ? 0 : static_cast<uint32_t>(kExtent.n() * params.staging_pitch));

  // Phases come first, then channels: blocks that are neighbours read the same source.
  int64_t rest = blockIdx.x;
  const auto take = [&](int64_t count) {
    const int64_t whole = rest / count;
    const auto value = static_cast<int32_t>(rest - whole * count);
    rest = whole;
    return value;
  };
  const int32_t first_phase = take(params.phase_blocks) * params.block_phases;
  const int32_t n_block = take(params.n_blocks);
  const int64_t group = take(params.groups);
  BlockShare& share = *reinterpret_cast<BlockShare*>(dynamic_shared_memory + layout.share);
  {
    int32_t first[3];
#pragma unroll
    for (int i = 2; i >= 0; --i) first[i] = take(params.boxes[i + 1]) * params.box[i];
    if (threadIdx.x == 0) {
#pragma unroll
      for (int i = 0; i < 3; ++i) share.first[i] = first[i];
      share.image = rest * tile.images;
      share.first_channel = group * params.n_channels + n_block * kExtent.n();
      share.channels = min(params.n_channels - n_block * kExtent.n(), kExtent.n());
      share.source_channel = group * params.k_channels;
    }
    fill_coordinates(tile, first, coordinates);
  }
  fill_steps(params, first_phase, steps);
  __syncthreads();

  const auto warp = static_cast<int32_t>(threadIdx.x) / 32;
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
  uint32_t rows[Product::kRows];
#pragma unroll
  for (int i = 0; i < Product::kRows; ++i) {
    // Lanes 0 to 15 name the rows' first 16 bytes, the others the next.
    int32_t m = warp / kExtent.warps_n * kExtent.warp_m + i * 16 + lane % 16;
    const int32_t w = params.box_width.take(m);
    const BoxPlace place = params.box_rows.place(m);
    const int32_t row = place.image * tile.stride[0] + place.d * tile.stride[1] + place.h * tile.stride[2] + w;
    rows[i] = static_cast<uint32_t>((m < params.box_rows.count ? row * tile.pitch : 0) + lane / 16 * kPieceBytes);
  }
  const Residue first_residue = residue_of(params, first_phase);
  const int32_t step_bytes = kExtent.n() * kStepBytes * kTerms;
  const int32_t k_steps = params.chunks * params.chunk_steps;
  const int64_t all_taps = int64_t{params.residues[0].taps} * params.residues[1].taps * params.residues[2].taps;
  const int64_t first_step =
      ((group * params.n_blocks + n_block) * all_taps +
       taps_before(params.residues, first_residue.at[0], first_residue.at[1], first_residue.at[2])) *
      k_steps;
  Product product(rows,
                  params.weight + first_step * step_bytes +
                      warp % kExtent.warps_n * (kExtent.warp_n * kStepBytes * kTerms) + lane * Product::kLaneBytes,
                  step_bytes);

  const TileLoader<T> loader(params.tile, coordinates);
  BlockStore<T, kTerms, kShape> store(params, share, offsets, staging);
  const int32_t stages = params.chunks * tile.axis[0].stages() * tile.axis[1].stages() * tile.axis[2].stages();
  const bool resident = stages == 1;  // and serves all phases
  const int32_t turns = stages * params.block_phases;
  const int32_t ahead = params.buffers - 1;  // stages that are on their way while one is read
  int32_t to_load = resident ? 1 : turns;
  StageCursor loading;
  StageCursor computing;
  const auto receive = [&] {
    if (ahead > 1) {
      async_wait<1>();
    } else {
      async_wait<0>();
    }
    loader.round_copied(computing.stage(params, share, tiles));
    __syncthreads();
  };
  Residue residue{};
  int32_t phase = first_phase;
  int32_t stage = 0;  // of the phase
  for (int32_t turn = -ahead; turn < turns; ++turn) {
    const bool arrives = turn >= 0 && (!resident || turn == 0);
    if (arrives && ahead > 0) {
      receive();
    } else if (arrives && turn > 0) {
      __syncthreads();  // the only buffer is read
    }
    if (to_load > 0) {
      --to_load;
      loader.load(loading.stage(params, share, tiles));
      loading.advance(params);
    }
    async_commit();
    if (arrives && ahead == 0) receive();
    if (turn < 0) continue;
    if (turn == 0) {
      wait_for_kernel_before();  // which packs the weight
      product.begin();
    }

    if (stage == 0) {
      residue = residue_of(params, phase++);
      product.clear();
    }
    // The taps of this stage.
    int32_t counts[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) counts[i] = params.residues[i].tap_count[residue.at[i]];
    const int32_t phase_steps = counts[0] * counts[1] * counts[2] * params.chunk_steps;
    int32_t first = 0;
    int32_t count = phase_steps;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      if (!tile.axis[i].split) continue;
      const bool has_tap = computing.unit[i] < counts[i];
      count = has_tap ? count / counts[i] : 0;
      first += has_tap ? computing.unit[i] * count : 0;
    }
    product.add(steps + first, count, tiles + static_cast<uint32_t>(computing.buffer * tile.bytes()));
    if (!resident) computing.advance(params);
    if (++stage < stages) continue;
    stage = 0;
    store(residue, product.sum);
    steps += phase_steps;
  }
#endif
}

}  // namespace convt3d::mma
