// The kernel of the matmul engine. A block has columns of the weight for its life, its share, and takes turns with the
// other walkers of the share at tiles of positions. It runs through the stages of one tile after another: the next
// tile's are on their way while one is stored.
#pragma once

#include <cstdint>

#include "device/overlap.cuh"
#include "device/ptx/shared_memory.cuh"
#include "engines/matmul/load.cuh"
#include "engines/matmul/mainloop.cuh"
#include "engines/matmul/store.cuh"

namespace convt3d {

template <typename T, MatmulTile kTile, MatmulRows kRows, int kTerms>
__global__ void __launch_bounds__(matmul_extent(kTile).threads(), matmul_blocks(kTile, kTerms, sizeof(T)))
    convt3d_matmul(const __grid_constant__ MatmulParams<T> params) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // elsewhere an empty body, which the plan never chooses
  constexpr MatmulExtent kExtent = matmul_extent(kTile);
  constexpr int kDepth = kMatmulStageBytes / static_cast<int>(sizeof(T));
  const MatmulPlan& plan = params.plan;
  const MatmulLayout& layout = params.layout;
  const auto walker = params.by_shares.quotient(static_cast<int32_t>(blockIdx.x));
  const int32_t share = params.by_shares.remainder(static_cast<int32_t>(blockIdx.x), walker);
  const int32_t group = params.by_n_tiles.quotient(share);
  const int32_t first_column = params.by_n_tiles.remainder(share, group) * kExtent.n;
  const int32_t tiles = (plan.m_tiles - walker + plan.walkers - 1) / plan.walkers;
  const int32_t stages = tiles * plan.k_stages;

  const MatmulWeightLoader<T, kTile> weight(params, group, first_column);
  MatmulInputLoader<T, kTile, kRows> input(params, group);
  const MatmulStorer<T, kTile> storer(params);
  const uint32_t memory = hopper::shared_address(dynamic_shared_memory);

  // What is loaded next.
  int32_t load_tile = walker;
  int32_t load_k = 0;
  int32_t load_buffer = 0;
  int32_t loaded = 0;
  const auto load = [&] {
    if (loaded < stages) {
      if (load_k == 0) input.begin(params, load_tile * kExtent.m);
      input.load(params, memory + static_cast<uint32_t>(load_buffer * layout.input_bytes), load_k * kDepth);
      if (!plan.resident || loaded < plan.k_stages) {
        const int32_t slot = plan.resident ? load_k : load_buffer;
        weight.load(params, memory + static_cast<uint32_t>(layout.weight + slot * layout.weight_bytes),
                    load_k * kDepth);
      }
      if (++load_k == plan.k_stages) {
        load_k = 0;
        load_tile += plan.walkers;
      }
      if (++load_buffer == plan.buffers) load_buffer = 0;
      ++loaded;
    }
    async_commit();  // of nothing, too: the number of groups counts
  };

  wait_for_kernel_before();

  MatmulSums<T, kTile, kRows, kTerms> sums;
  int32_t buffer = 0;
  int32_t k = 0;
  int32_t tile = walker;
#pragma unroll 1
  for (int32_t stage = 1 - plan.buffers; stage < stages; ++stage) {
    if (stage >= 0) {
      switch (plan.buffers) {
        case 2:
          async_wait<0>();
          break;
        case 3:
          async_wait<1>();
          break;
        default:
          async_wait<2>();
      }
      __syncthreads();  // the stage has arrived for all, and nobody reads the one before
    }
    load();  // in one place: small layers wait for the code of their kernel
    if (stage == -1) storer.begin(params, group, first_column);
    if (stage < 0) continue;
    sums.add(memory + static_cast<uint32_t>(buffer * layout.input_bytes),
             memory + static_cast<uint32_t>(layout.weight + (plan.resident ? k : buffer) * layout.weight_bytes));
    if (++buffer == plan.buffers) buffer = 0;
    if (++k < plan.k_stages) continue;
    k = 0;
    storer.store(params, sums, tile * kExtent.m);
    sums.clear();
    tile += plan.walkers;
  }
#endif
}

}  // namespace convt3d
