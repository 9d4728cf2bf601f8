// The kernel of the matmul engine. A block has columns of the weight for its life, its share, and takes turns with the
// other walkers of the share at tiles of positions. It runs through the stages of one tile after another: the next
// tile's are on their way while one is stored. Of teams each has every so many-th stage of a tile, and the first stores
// what all have summed. Of splits each has some stages of its block's only tile, and the last one done stores.
#pragma once

#include <cstdint>

#include "device/overlap.cuh"
#include "device/ptx/shared_memory.cuh"
#include "engines/matmul/load.cuh"
#include "engines/matmul/load_gradient.cuh"
#include "engines/matmul/mainloop.cuh"
#include "engines/matmul/store.cuh"

namespace convt3d {

constexpr int kMatmulCountingThreads = 128;
struct MatmulCounters {
  uint32_t* counters;
  int32_t count;
};
static __global__ void convt3d_matmul_begin_counters(const __grid_constant__ MatmulCounters params) {
  begin_dependents();
  for (auto i = static_cast<int32_t>(threadIdx.x); i < params.count; i += kMatmulCountingThreads)
    params.counters[i] = 0;
}

template <typename T, Operator kOp, MatmulTile kTile, bool kTeams, bool kSplits, MatmulRows kRows, int kTerms>
__global__ void __launch_bounds__(matmul_extent(kTile).threads() * (kTeams ? matmul_teams(kTerms) : 1),
                                  kTeams ? 1 : matmul_blocks(kTile, kTerms, sizeof(T)))
    convt3d_matmul(const __grid_constant__ MatmulParams<T> params) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // elsewhere an empty body, which the plan never chooses
  constexpr MatmulExtent kExtent = matmul_extent(kTile);
  constexpr int kDepth = kMatmulStageBytes / static_cast<int>(sizeof(T));
  // TF32: each thread rounds what it has copied. Teams have few tiles, whose time is the waiting for each stage, and
  // round what they multiply.
  constexpr bool kRounds = sizeof(T) == 4 && kTerms == 1 && !kTeams;
  const MatmulPlan& plan = params.plan;
  const MatmulLayout& layout = params.layout;
  auto place = static_cast<int32_t>(blockIdx.x);
  int32_t split = 0;
  if constexpr (kSplits) split = params.by_splits.take(place);
  const auto walker = params.by_shares.quotient(place);
  const int32_t share = params.by_shares.remainder(place, walker);
  const int32_t group = params.by_n_tiles.quotient(share);
  const int32_t first_column = params.by_n_tiles.remainder(share, group) * kExtent.n;
  const int32_t tiles = (plan.m_tiles - walker + plan.walkers - 1) / plan.walkers;
  const int32_t team = kTeams ? static_cast<int32_t>(threadIdx.x) / kExtent.threads() : 0;
  const int32_t teams = kTeams ? plan.teams : 1;
  const int32_t first_k = kSplits ? split * plan.split_stages() : 0;
  const int32_t end_k = kSplits ? min(first_k + plan.split_stages(), plan.k_stages) : plan.k_stages;
  const int32_t tile_stages = (end_k - first_k - team + teams - 1) / teams;  // the team's
  const int32_t stages = tiles * tile_stages;

  const MatmulWeightLoader<T, kOp, kTile> weight(params, group, first_column);
  MatmulSourceLoader<T, kOp, kTile, kRows> source(params, group);
  const MatmulStorer<T, kOp, kTile, kTerms> storer(params);
  const uint32_t memory = hopper::shared_address(dynamic_shared_memory);
  const uint32_t sources = memory + static_cast<uint32_t>(team * plan.buffers * layout.source_bytes);
  const uint32_t weights = memory + static_cast<uint32_t>(layout.weight) +
                           static_cast<uint32_t>(plan.resident ? 0 : team * plan.buffers * layout.weight_bytes);

  // What is loaded next.
  int32_t load_tile = walker;
  int32_t load_k = first_k + team;
  int32_t load_buffer = 0;
  int32_t loaded = 0;
  const auto load = [&] {
    if (loaded < stages) {
      if (load_k == first_k + team) source.begin(params, load_tile * kExtent.m);
      source.load(params, sources + static_cast<uint32_t>(load_buffer * layout.source_bytes), load_k * kDepth);
      if (!plan.resident || loaded < tile_stages) {
        const int32_t slot = plan.resident ? load_k : load_buffer;
        weight.load(params, weights + static_cast<uint32_t>(slot * layout.weight_bytes), load_k * kDepth);
      }
      load_k += teams;
      if (load_k >= end_k) {
        load_k = first_k + team;
        load_tile += plan.walkers;
      }
      if (++load_buffer == plan.buffers) load_buffer = 0;
      ++loaded;
    }
    async_commit();  // of nothing, too: the number of groups counts
  };

  if constexpr (kOp == Operator::kInputGrad) {
    list_matmul_places(params);
    __syncthreads();
  }
  wait_for_kernel_before();
  begin_dependents();  // which need not wait for what was before this kernel, as all of its blocks have

  MatmulSums<T, kOp, kTile, kRows, kTerms, kRounds> sums;
  int32_t buffer = 0;
  int32_t k = first_k + team;
  int32_t tile = walker;
  bool odd = false;
  const int32_t last_steps = plan.last_steps();
  const auto source_stage = [&] { return sources + static_cast<uint32_t>(buffer * layout.source_bytes); };
  const auto weight_stage = [&] {
    return weights + static_cast<uint32_t>((plan.resident ? k : buffer) * layout.weight_bytes);
  };
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
      if constexpr (kRounds) {
        source.round(params, source_stage());
        if (!plan.resident || stage < tile_stages) weight.round(weight_stage());
      }
      if (k == first_k) storer.place(params, tile * kExtent.m, odd);
      sync_matmul_team<kTile, kTeams>();  // the stage has arrived for all, and nobody reads the one before
    }
    load();  // in one place: small layers wait for the code of their kernel
    if (stage == -1 && team == 0) storer.begin(params, group, first_column);
    if (stage < 0) continue;
    sums.add(source_stage(), weight_stage(), k == plan.k_stages - 1 ? last_steps : kMatmulStageSteps);
    if (++buffer == plan.buffers) buffer = 0;
    k += teams;
    if (k < end_k) continue;
    k = first_k + team;
    if constexpr (kTeams) storer.join(params, sums);
    if (team == 0) {
      if constexpr (kSplits) {
        if (!storer.template add_splits<kTeams>(params, tile, share, split, sums)) return;
      }
      storer.store(params, sums, odd);
    }
    sums.clear();
    tile += plan.walkers;
    odd = !odd;
  }
#endif
}

}  // namespace convt3d
