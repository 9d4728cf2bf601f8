// Forward on Hopper's matrix units. A block stays on its multiprocessor and takes one work tile (a tile and a share of
// its passes) after another. Its warps have roles, linked by barriers only:
//   warpgroups 0, 1   consumers: each multiplies and stores its half of the tile's columns, in all passes
//   warps 8-10        producers of tiles, ahead of the products
//   warp 11           producer of weights, which also claims the work tiles
//
//   A (64 x K of a stage)  weights, from their pipeline
//   B (K x kN positions)   neighbouring positions of the tile, shifted by the offset of the tap
#pragma once

#include <type_traits>

#include "device/hopper.cuh"
#include "device/ptx/thread_barrier.cuh"
#include "engines/wgmma/load/loader.cuh"
#include "engines/wgmma/load/transposer.cuh"
#include "engines/wgmma/mainloop.cuh"
#include "engines/wgmma/scheduler.cuh"
#include "engines/wgmma/shared.cuh"
#include "engines/wgmma/store/epilogue.cuh"

namespace convt3d {

constexpr int kWgmmaThreads = 384;
constexpr int kWgmmaConsumerThreads = 32 * kWgmmaConsumerWarps;
// Barriers of a part of the block.
constexpr int kConsumersBarrier = 1;
constexpr int kTileProducersBarrier = 2;
// Registers of a thread of each kind, as many as the accumulators leave room for.
constexpr int wgmma_consumer_registers(int columns) { return columns >= 240 ? 208 : 192; }
constexpr int wgmma_producer_registers(int columns) { return columns >= 240 ? 88 : 120; }

// Walks over the work tiles: see WgmmaWorkRing.
template <int kTerms>
__device__ __forceinline__ int work_walks(const WgmmaLoad& load) {
  return kWgmmaConsumerWarps + (load.copies() && kTerms == 1 ? 1 : kWgmmaTileProducerWarps) + 1;
}

// Chunks of all work tiles, one after another: `load` brings one to a stage that may be written once `enter_tile`
// returns. By a whole warp or by one thread.
template <WgmmaWalker kWalker, typename T, typename Load>
__device__ __forceinline__ void for_each_chunk(const WgmmaParams<T>& params, const WgmmaShared& shared, Load&& load) {
  const WgmmaPlan& plan = params.plan;
  WgmmaPipelineState state;
  WgmmaLoadCursor<kWalker> cursor(plan, WgmmaWorkWalk<kWalker>(shared.barriers->work, params.plan.grid.work_tiles));
  for (; !cursor.ended(); cursor.advance()) {
    const WgmmaWorkTile work(plan, cursor.index());
    const int phase = cursor.phase(plan, work);
    const WgmmaChunk chunk{work,
                           cursor.at_work_begin(),
                           phase,
                           WgmmaOrigin(plan, work, phase),
                           cursor.first_panel(),
                           shared.tiles + state.stage * plan.panels.tile_bytes};
    load(chunk, state);
    state.advance(plan.pipelines.tile_stages);
  }
}

// Boxes of several tiles seem to arrive together: the first one is waited for before the next is
// asked for, so that products begin earlier.
__device__ __forceinline__ void wait_for_first(uint64_t* arrived, bool& first) {
  if (first) hopper::barrier_wait(arrived, 0);
  first = false;
}

// By the three producers of tiles: transposed on its way.
template <typename T, int kTerms, bool kPlanes>
__device__ __forceinline__ void load_boxes(const WgmmaParams<T>& params, const WgmmaShared& shared) {
  WgmmaBarriers& barriers = *shared.barriers;
  const int warp = hopper::warp_index() - kWgmmaConsumerWarps;
  WgmmaTransposer<T, kTerms, kPlanes> transposer(
      params, warp, WgmmaWorkWalk<WgmmaWalker::kWarpAhead>(barriers.work, params.plan.grid.work_tiles),
      shared.boxes + warp * kWgmmaBoxBuffers * kWgmmaBoxBytes, shared.sources, barriers.box_full[warp]);
  for_each_chunk<WgmmaWalker::kWarp>(params, shared, [&](const WgmmaChunk& chunk, const WgmmaPipelineState& state) {
    barriers.enter_tile(state);
    transposer.load(chunk);
    barriers.publish_tile(state);
  });
}

// kImages: some may share a tile though the width is contiguous.
template <typename T, int kTerms, bool kNMajor, bool kImages>
__device__ __forceinline__ void load_tiles(const WgmmaParams<T>& params, const WgmmaShared& shared) {
  const WgmmaPlan& plan = params.plan;
  WgmmaBarriers& barriers = *shared.barriers;
  const int thread = static_cast<int>(threadIdx.x) - kWgmmaConsumerThreads;
  if (plan.source_beside) {
    hopper::wait_for_predecessors();
    hopper::allow_dependents();  // which may read the same copy, and need not wait for it
  }
  if constexpr (kNMajor) {
    if (thread > 0) return;
    bool first = true;
    for_each_chunk<WgmmaWalker::kThread>(params, shared, [&](const WgmmaChunk& chunk, const WgmmaPipelineState& state) {
      barriers.enter_tile(state);
      copy_n_major_tile(params, chunk, &barriers.tile_full[state.stage]);
      wait_for_first(&barriers.tile_full[state.stage], first);
    });
  } else if (plan.load.transposes()) {
    if constexpr (kImages) {
      if (plan.load.plane_boxes()) {
        fill_sources<T>(plan, thread, shared.sources);
        sync_threads(kTileProducersBarrier, kWgmmaTileProducerThreads);
        return load_boxes<T, kTerms, true>(params, shared);
      }
    }
    load_boxes<T, kTerms, false>(params, shared);
  } else if (!plan.load.boxes()) {
    for_each_chunk<WgmmaWalker::kWarp>(params, shared, [&](const WgmmaChunk& chunk, const WgmmaPipelineState& state) {
      barriers.enter_tile(state);
      if (plan.load.way() == WgmmaLoadWay::kPieces) {
        load_wgmma_tile<T, kTerms, true>(params, thread, chunk);
      } else {
        load_wgmma_tile<T, kTerms, false>(params, thread, chunk);
      }
      barriers.publish_tile(state);
    });
  } else if (thread < 32) {
    // One thread has the tiles copied; where there are two terms, the other warps split what has arrived.
    if (thread > 0) return;
    bool first = true;
    for_each_chunk<WgmmaWalker::kThread>(params, shared, [&](const WgmmaChunk& chunk, const WgmmaPipelineState& state) {
      barriers.enter_tile(state);
      uint64_t* const arrived = kTerms == 1 ? &barriers.tile_full[state.stage] : &barriers.copied[state.stage];
      copy_wgmma_tile(params, chunk, arrived);
      wait_for_first(arrived, first);
    });
  } else if constexpr (kTerms == 2) {
    clear_zeros(plan, thread % 32, 32, shared.tiles);  // before anything is split
    __syncwarp();
    for_each_chunk<WgmmaWalker::kWarp>(params, shared, [&](const WgmmaChunk& chunk, const WgmmaPipelineState& state) {
      hopper::barrier_wait(&barriers.copied[state.stage], state.parity);
      split_wgmma_tile(plan, thread - 32, chunk.panels);
      barriers.publish_tile(state);
    });
  }
}

// Stages of weights that follow one another in memory.
__device__ __forceinline__ void load_stages(const WgmmaPlan& plan, const WgmmaShared& shared,
                                            const unsigned char* source, int stages, WgmmaPipelineState& state) {
  WgmmaBarriers& barriers = *shared.barriers;
  for (int stage = 0; stage < stages; ++stage) {
    uint64_t* full = &barriers.weights_full[state.stage];
    hopper::barrier_wait(&barriers.weights_empty[state.stage], state.parity ^ 1);
    hopper::barrier_arrive_expect(full, kWgmmaWeightStageBytes);
    hopper::copy_to_shared(shared.weights + state.stage * kWgmmaWeightStageBytes, source, kWgmmaWeightStageBytes, full);
    source += kWgmmaWeightStageBytes;
    state.advance(plan.pipelines.weight_stages);
  }
}

// By one thread, which also claims the work tiles.
template <typename T>
__device__ __forceinline__ void load_weights(const WgmmaParams<T>& params, const WgmmaShared& shared) {
  const WgmmaPlan& plan = params.plan;
  WgmmaBarriers& barriers = *shared.barriers;
  const bool keeps = params.plan.grid.weight_classes > 0;
  WgmmaPipelineState state;
  WgmmaWorkClaims claims(barriers.work, params.counters, keeps ? params.plan.grid.weight_classes : 1);
  WgmmaWorkWalk<WgmmaWalker::kThread> walk(barriers.work, params.plan.grid.work_tiles);
  clear_zeros(plan, 0, 1, shared.tiles);  // consumers wait for weights before they read a tile
  for (bool first = true; !walk.ended(); walk.advance(), first = false) {
    if (!first) claims.claim();
    if (!first && keeps) continue;
    const WgmmaWorkTile work(plan, walk.index());
    const WgmmaWeightStream stream(plan, work);
    const unsigned char* source = params.weight + stream.first * kWgmmaWeightStageBytes;
    if (first) hopper::wait_for_predecessors();  // which packed the weight and cleared the counters
    if (__builtin_expect(plan.pipelines.skips_unread, false)) {
      const WgmmaLoops& loops = plan.loops;
      const int passes = plan.split_passes();
      for (int pass = work.split * passes; pass < (work.split + 1) * passes; ++pass) {
        const int phase_index = plan.arrangement.phase_of(pass);
        // Of all chunks; to ask for each of them took small volumes 5 % longer (docs/dev/lab-notes.md).
        const WgmmaReadStages first_set(plan, work, phase_index, 0);
        const WgmmaReadStages last_set(plan, work, phase_index, loops.sets - 1);
        for (int part = 0; part < loops.chunks * loops.sets; ++part) {
          const bool is_first = loops.sets.remainder(part) == 0;
          const int begin = is_first ? first_set.first : last_set.first;
          load_stages(plan, shared, source + begin * kWgmmaWeightStageBytes,
                      is_first ? first_set.count : last_set.count, state);
          source += (is_first ? first_set.all : last_set.all) * kWgmmaWeightStageBytes;
        }
      }
    } else {
      load_stages(plan, shared, source, stream.stages, state);
    }
  }
}

template <typename T, int kN, int kSets, int kTerms, bool kNMajor>
__device__ __forceinline__ void multiply_and_store(const WgmmaParams<T>& params, const WgmmaShared& shared) {
  const WgmmaPlan& plan = params.plan;
  const int warp = hopper::warp_index();
  const bool second = warp >= 4;
  const int chunks = plan.loops.chunks;
  const bool loads_each_pass = plan.loads_each_pass();
  const int summed = plan.arrangement.summed_phases();
  const int passes = plan.split_passes();
  const bool skips = plan.pipelines.skips_unread;
  const hopper::MatrixDescriptor b_base =
      columns_descriptor<kNMajor>(plan, shared.tiles, second ? plan.tile.second_start : 0);
  WgmmaConsumerState consumer(shared, plan);
  WgmmaEpilogue<T, kN, kSets> epilogue(params, second ? 1 : 0, shared.columns + (second ? wgmma_table_columns(kN) : 0),
                                       shared.segments + (second ? plan.store.segments[0] : 0),
                                       shared.staging + warp * plan.store.warp_bytes);
  WgmmaPipelineState tile;
  uint32_t ping_pong_parity = second ? 0 : 1;  // the first warpgroup begins
  uint32_t lag = second ? plan.pipelines.lag_clocks : 0;
  WgmmaWorkWalk<WgmmaWalker::kWarp> walk(shared.barriers->work, params.plan.grid.work_tiles);
  while (!walk.ended()) {
    const WgmmaWorkTile work(plan, walk.index());
    int m_tile = work.split * passes;
    int phase_index = plan.arrangement.by_phases.take(m_tile);
    for (int pass = 0; pass < passes; pass += summed) {
      const bool last = pass + summed == passes;
      // Before the warpgroup's turn, which this would delay.
      WgmmaSteps steps[kSets];
      const auto all_steps = [&] {
#pragma unroll
        for (int set = 0; set < kSets; ++set) steps[set] = {0, plan.loops.steps[phase_index * kSets + set]};
      };
      all_steps();
      if (__builtin_expect(skips, false)) {
#pragma unroll
        for (int set = 0; set < kSets; ++set) steps[set] = read_steps(plan, work, phase_index, set);
      }
      float c[kSets][kN / 2];
      [[maybe_unused]] float products[kTerms == 1 ? 1 : kN / 2];  // of two stages, where there are two terms
      epilogue.begin_pass(work, plan.arrangement.phase(phase_index),
                          plan.arrangement.slab(plan.product, m_tile * kWgmmaTileSlabs + warp % kWgmmaTileSlabs));
      clear(c);
      if (plan.pipelines.ping_pong) {
        hopper::barrier_wait(&shared.barriers->ping_pong[second ? 1 : 0], ping_pong_parity);
        ping_pong_parity ^= 1;
      }
      int chunk = 0;  // of a phase
      for (int part = 0; part < summed * chunks; ++part) {
        if (loads_each_pass || pass == 0) {
          hopper::barrier_wait(&shared.barriers->tile_full[tile.stage], tile.parity);
          if (lag > 0) hopper::wait_clocks(lag);
          lag = 0;
        }
        const hopper::MatrixDescriptor b = b_base + static_cast<uint32_t>(tile.stage * (plan.panels.tile_bytes / 16));
#pragma unroll
        for (int set = 0; set < kSets; ++set) {
          constexpr int kSteps = kWgmmaStageSlices / kTerms;  // of a stage
          const int loop = phase_index * kSets + set;
          const int count = steps[set].end - steps[set].begin;
          const uint16_t* shifts = shared.shifts + plan.loops.first[loop] * kSteps + steps[set].begin;
          if constexpr (kTerms == 1) {
            multiply_steps<T, kN, kNMajor>(count, shifts, b, c[set], consumer);
          } else {
            multiply_steps_of_terms<kN>(count, shifts, b, static_cast<uint32_t>(plan.panels.term_bytes / 16), products,
                                        c[set], consumer);
          }
        }
        if (loads_each_pass || last) {
          consumer.leave_tile(tile.stage);
          tile.advance(plan.pipelines.tile_stages);
        }
        if (++chunk == chunks) {
          chunk = 0;
          ++phase_index;
          if (part + 1 < summed * chunks) all_steps();  // of the next phase of the same sum
        }
      }
      // One lane hands on what all of them have waited for. Products hold the lanes together, and some passes have
      // none.
      __syncwarp();
      if (plan.pipelines.ping_pong && threadIdx.x % 32 == 0)
        hopper::barrier_arrive(&shared.barriers->ping_pong[second ? 0 : 1]);
      if (last) walk.advance();  // while the last products are computed
      if constexpr (kTerms == 1) {
        hopper::wgmma_wait<0>();
#pragma unroll
        for (int set = 0; set < kSets; ++set) fence_registers(c[set]);
      }
      consumer.release_all();
      if (last) consumer.end_work_tile(params.plan.grid.weight_classes > 0);
      epilogue.store(c);
      if (phase_index == plan.arrangement.phases) {
        phase_index = 0;
        ++m_tile;
      }
    }
  }
  epilogue.finish();
}

// kNMajor: of N-major panels.
template <typename T, int kN, int kSets, int kTerms, bool kNMajor>
__global__ void __launch_bounds__(kWgmmaThreads, 1)
    convt3d_halo_forward(const __grid_constant__ WgmmaParams<T> params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // elsewhere an empty body, which the plan never chooses
  if (!params.plan.source_beside) hopper::allow_dependents();
  const WgmmaShared shared(params.plan.memory, wgmma_memory());
  const int warp = hopper::warp_index();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kWgmmaMaxWeightStages; ++i) {
      hopper::barrier_init(&shared.barriers->weights_full[i], 1);
      hopper::barrier_init(&shared.barriers->weights_empty[i], kWgmmaConsumerThreads / 32);
    }
    const int producers = !params.plan.load.copies() ? kWgmmaTileProducerThreads : kTerms == 1 ? 1 : kWgmmaSplitThreads;
    for (int i = 0; i < kWgmmaMaxTileStages; ++i) {
      hopper::barrier_init(&shared.barriers->copied[i], 1);
      hopper::barrier_init(&shared.barriers->tile_full[i], producers);
      hopper::barrier_init(&shared.barriers->tile_empty[i], kWgmmaConsumerThreads / 32);
    }
    for (auto& warp_boxes : shared.barriers->box_full) {
      for (uint64_t& box_full : warp_boxes) hopper::barrier_init(&box_full, 1);
    }
    for (uint64_t& turn : shared.barriers->ping_pong) hopper::barrier_init(&turn, kWgmmaConsumerThreads / 64);
    shared.barriers->work.init(work_walks<kTerms>(params.plan.load));
    hopper::barrier_init_fence();
  }
  __syncthreads();
  if (warp >= kWgmmaConsumerThreads / 32) {
    hopper::give_registers<wgmma_producer_registers(kSets * kN)>();
    if (warp < (kWgmmaConsumerThreads + kWgmmaTileProducerThreads) / 32) {
      load_tiles<T, kTerms, kNMajor, wgmma_stores_images(kN, kSets)>(params, shared);
    } else if (threadIdx.x % 32 == 0) {
      load_weights(params, shared);
    }
  } else {
    hopper::take_registers<wgmma_consumer_registers(kSets * kN)>();
    // While the first tile and its weights are on their way.
    fill_staging_tables(params, kWgmmaConsumerThreads, shared.columns, shared.segments);
    fill_shifts<kNMajor>(params.plan, shared.shifts);
    sync_threads(kConsumersBarrier, kWgmmaConsumerThreads);
    multiply_and_store<T, kN, kSets, kTerms, kNMajor>(params, shared);
  }
#endif
}

}  // namespace convt3d
