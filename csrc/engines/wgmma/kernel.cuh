// Forward on Hopper's matrix units. A block stays on its multiprocessor and takes one item (a tile's share of the
// units) after another. Its warps have roles, linked by barriers only:
//   warpgroups 0, 1   multiply and store: each its half of the tile's columns, all units
//   warps 8-10        load the tiles of the input, ahead of the multiplication
//   warp 11           keeps the ring of weights filled, and claims the items
//
//   A (64 x K of a stage)  weights, from the ring
//   B (K x kN positions)   neighbouring positions of the tile, shifted by the offset of the tap
#pragma once

#include <type_traits>

#include "device/hopper.cuh"
#include "engines/wgmma/items.cuh"
#include "engines/wgmma/load/loader.cuh"
#include "engines/wgmma/load/transposer.cuh"
#include "engines/wgmma/mainloop.cuh"
#include "engines/wgmma/shared.cuh"
#include "engines/wgmma/store/epilogue.cuh"

namespace convt3d {

constexpr int kHaloThreads = 384;
constexpr int kHaloMultiplyThreads = 32 * kHaloMultiplyWarps;
// Barriers of a part of the block.
constexpr int kMultipliersBarrier = 1;
constexpr int kLoadersBarrier = 2;
// Of a thread of each kind, as large as the accumulators leave room for.
constexpr int halo_multiply_registers(int columns) { return columns == 256 ? 208 : 192; }
constexpr int halo_load_registers(int columns) { return columns == 256 ? 88 : 120; }

// Walks over the items: see HaloItemRing.
template <int kTerms>
__device__ __forceinline__ int item_walks(HaloLoad load) {
  return kHaloMultiplyWarps + (copies(load) && kTerms == 1 ? 1 : kHaloLoaderWarps) + 1;
}

// Chunks of all items, one after another: `load` brings one to a slot that may be written once `enter` returns. By a
// whole warp or by one thread.
template <HaloWalker kWalker, typename T, typename Load>
__device__ __forceinline__ void for_each_chunk(const HaloParams<T>& params, const HaloShared& shared, Load&& load) {
  const HaloPlan& plan = params.plan;
  HaloPlace place;
  HaloLoadCursor<kWalker> cursor(plan, HaloItems<kWalker>(shared.barriers->items, params.items));
  for (; !cursor.ended(); cursor.advance()) {
    const HaloItem item(plan, cursor.index());
    const int phase = cursor.phase(plan, item);
    const HaloChunk chunk{item,
                          cursor.at_items_begin(),
                          phase,
                          HaloOrigin(plan, item, phase),
                          cursor.first_panel(),
                          shared.tiles + place.slot * plan.slot_bytes()};
    load(chunk, place);
    place.advance(plan.slots);
  }
}

// By the three warps that load: transposed on its way.
template <typename T, int kTerms, bool kPlanes>
__device__ __forceinline__ void load_boxes(const HaloParams<T>& params, const HaloShared& shared) {
  HaloBarriers& barriers = *shared.barriers;
  const int warp = hopper::warp_index() - kHaloMultiplyWarps;
  HaloTransposer<T, kTerms, kPlanes> transposer(
      params, warp, HaloItems<HaloWalker::kWarpAhead>(barriers.items, params.items),
      shared.boxes + warp * kHaloBoxBuffers * kHaloBoxBytes, shared.sources, barriers.box_full[warp]);
  for_each_chunk<HaloWalker::kWarp>(params, shared, [&](const HaloChunk& chunk, const HaloPlace& place) {
    barriers.enter_tile(place);
    transposer.load(chunk);
    barriers.publish_tile(place);
  });
}

// kImages: some may share a tile though the width is contiguous.
template <typename T, int kTerms, bool kNMajor, bool kImages>
__device__ __forceinline__ void load_tiles(const HaloParams<T>& params, const HaloShared& shared) {
  const HaloPlan& plan = params.plan;
  HaloBarriers& barriers = *shared.barriers;
  const int thread = static_cast<int>(threadIdx.x) - kHaloMultiplyThreads;
  if constexpr (kNMajor) {
    if (thread > 0) return;
    for_each_chunk<HaloWalker::kThread>(params, shared, [&](const HaloChunk& chunk, const HaloPlace& place) {
      barriers.enter_tile(place);
      copy_position_rows(params, chunk, &barriers.tile_full[place.slot]);
    });
  } else if (params.load == HaloLoad::kTranspose) {
    if constexpr (kImages) {
      if (plan.box_images > 0) {
        fill_sources<T>(plan, thread, shared.sources);
        hopper::sync_threads<kLoadersBarrier, kHaloLoaderThreads>();
        return load_boxes<T, kTerms, true>(params, shared);
      }
    }
    load_boxes<T, kTerms, false>(params, shared);
  } else if (params.load == HaloLoad::kThreads) {
    for_each_chunk<HaloWalker::kWarp>(params, shared, [&](const HaloChunk& chunk, const HaloPlace& place) {
      barriers.enter_tile(place);
      if (params.source.pieces) {
        load_halo_tile<T, kTerms, true>(params, thread, chunk);
      } else {
        load_halo_tile<T, kTerms, false>(params, thread, chunk);
      }
      barriers.publish_tile(place);
    });
  } else if (thread < 32) {
    // One thread has the tiles copied; where there are two terms, the other warps split what has arrived.
    if (thread > 0) return;
    for_each_chunk<HaloWalker::kThread>(params, shared, [&](const HaloChunk& chunk, const HaloPlace& place) {
      barriers.enter_tile(place);
      copy_halo_tile(params, chunk, kTerms == 1 ? &barriers.tile_full[place.slot] : &barriers.copied[place.slot]);
    });
  } else if constexpr (kTerms == 2) {
    for_each_chunk<HaloWalker::kWarp>(params, shared, [&](const HaloChunk& chunk, const HaloPlace& place) {
      hopper::barrier_wait(&barriers.copied[place.slot], place.parity);
      split_halo_tile(plan, thread - 32, chunk.panels);
      barriers.publish_tile(place);
    });
  }
}

// By one thread, which also claims the items.
template <typename T>
__device__ __forceinline__ void load_weights(const HaloParams<T>& params, const HaloShared& shared) {
  const HaloPlan& plan = params.plan;
  HaloBarriers& barriers = *shared.barriers;
  const bool keeps = params.weight_classes > 0;
  HaloPlace place;
  HaloClaims claims(barriers.items, params.counters, keeps ? params.weight_classes : 1);
  HaloItems<HaloWalker::kThread> item(barriers.items, params.items);
  for (bool first = true; !item.ended(); item.advance(), first = false) {
    if (!first) claims.claim();
    if (!first && keeps) continue;
    const HaloStream stream(plan, HaloItem(plan, item.index()));
    const unsigned char* source = params.weight + stream.first * kHaloStageBytes;
    if (first) hopper::wait_for_predecessors();  // which packed the weight and cleared the counters
    for (int stage = 0; stage < stream.stages; ++stage) {
      uint64_t* full = &barriers.weights_full[place.slot];
      hopper::barrier_wait(&barriers.weights_empty[place.slot], place.parity ^ 1);
      hopper::barrier_arrive_expect(full, kHaloStageBytes);
      hopper::copy_to_shared(shared.ring + place.slot * kHaloStageBytes, source, kHaloStageBytes, full);
      source += kHaloStageBytes;
      place.advance(plan.ring);
    }
  }
}

template <typename T, int kN, int kSets, int kTerms, bool kNMajor>
__device__ __forceinline__ void multiply_and_store(const HaloParams<T>& params, const HaloShared& shared) {
  const HaloPlan& plan = params.plan;
  const int warp = hopper::warp_index();
  const bool second = warp >= 4;
  const int chunks = plan.chunks();
  const bool unit_loads = plan.unit_loads();
  const int units = plan.units() / plan.splits;
  const hopper::MatrixDescriptor b_base =
      columns_descriptor<kNMajor>(plan, shared.tiles, second ? plan.second_start : 0);
  HaloReader reader(shared, plan);
  HaloEpilogue<T, kN, kSets> epilogue(params, second ? 1 : 0, shared.columns + (second ? halo_table_columns(kN) : 0),
                                      shared.segments + (second ? plan.staging.segments[0] : 0),
                                      shared.staging + warp * plan.staging.warp_bytes);
  HaloPlace tile;
  uint32_t turn_parity = second ? 0 : 1;  // the first warpgroup begins
  uint32_t lag = second ? params.lag_clocks : 0;
  HaloItems<HaloWalker::kWarp> walk(shared.barriers->items, params.items);
  while (!walk.ended()) {
    const HaloItem item(plan, walk.index());
    int m_tile = item.split * units;
    int phase_index = plan.by_phases.take(m_tile);
    for (int unit = 0; unit < units; ++unit) {
      const bool last = unit + 1 == units;
      float c[kSets][kN / 2];
      [[maybe_unused]] float products[kTerms == 1 ? 1 : kN / 2];  // of two stages, where there are two terms
      epilogue.begin_unit(item, halo_phase(plan, phase_index), halo_slab(plan, m_tile * 4 + warp % 4));
      clear(c);
      if (plan.alternate) {
        hopper::barrier_wait(&shared.barriers->turn[second ? 1 : 0], turn_parity);
        turn_parity ^= 1;
      }
      for (int chunk = 0; chunk < chunks; ++chunk) {
        if (unit_loads || unit == 0) {
          hopper::barrier_wait(&shared.barriers->tile_full[tile.slot], tile.parity);
          if (lag > 0) hopper::wait_clocks(lag);
          lag = 0;
        }
        const hopper::MatrixDescriptor b = b_base + static_cast<uint32_t>(tile.slot * (plan.slot_bytes() / 16));
#pragma unroll
        for (int set = 0; set < kSets; ++set) {
          const int segment = phase_index * kSets + set;
          const int steps = plan.segment_steps[segment];
          const uint16_t* shifts = shared.shifts + plan.segment_first[segment] * (kHaloStageBlocks / kTerms);
          if constexpr (kTerms == 1) {
            multiply_segment<T, kN, kNMajor>(steps, shifts, b, c[set], reader);
          } else {
            multiply_segment_of_terms<kN>(steps, shifts, b, static_cast<uint32_t>(plan.term_bytes() / 16), products,
                                          c[set], reader);
          }
        }
        if (unit_loads || last) {
          reader.leave_tile(tile.slot);
          tile.advance(plan.slots);
        }
      }
      // One lane hands on what all of them have waited for. Products hold the lanes together, and some units have none.
      __syncwarp();
      if (plan.alternate && threadIdx.x % 32 == 0) hopper::barrier_arrive(&shared.barriers->turn[second ? 0 : 1]);
      if (last) walk.advance();  // while the last products are computed
      if constexpr (kTerms == 1) {
        hopper::wgmma_wait<0>();
#pragma unroll
        for (int set = 0; set < kSets; ++set) fence_registers(c[set]);
      }
      reader.release_all();
      if (last) reader.end_item(params.weight_classes > 0);
      epilogue.store(c);
      if (++phase_index == plan.phases) {
        phase_index = 0;
        ++m_tile;
      }
    }
  }
  epilogue.finish();
}

// kNMajor: of tiles that are rows of positions.
template <typename T, int kN, int kSets, int kTerms, bool kNMajor>
__global__ void __launch_bounds__(kHaloThreads, 1) convt3d_halo_forward(const __grid_constant__ HaloParams<T> params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // elsewhere an empty body, which the plan never chooses
  const HaloShared shared(params.plan.memory, halo_memory());
  const int warp = hopper::warp_index();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kHaloMaxRing; ++i) {
      hopper::barrier_init(&shared.barriers->weights_full[i], 1);
      hopper::barrier_init(&shared.barriers->weights_empty[i], kHaloMultiplyThreads / 32);
    }
    const int loaders = !copies(params.load) ? kHaloLoaderThreads : kTerms == 1 ? 1 : kHaloSplitThreads;
    for (int i = 0; i < kHaloMaxSlots; ++i) {
      hopper::barrier_init(&shared.barriers->copied[i], 1);
      hopper::barrier_init(&shared.barriers->tile_full[i], loaders);
      hopper::barrier_init(&shared.barriers->tile_empty[i], kHaloMultiplyThreads / 32);
    }
    for (auto& warp_boxes : shared.barriers->box_full) {
      for (uint64_t& box_full : warp_boxes) hopper::barrier_init(&box_full, 1);
    }
    for (uint64_t& turn : shared.barriers->turn) hopper::barrier_init(&turn, kHaloMultiplyThreads / 64);
    shared.barriers->items.init(item_walks<kTerms>(params.load));
    hopper::barrier_init_fence();
  }
  __syncthreads();
  if (warp >= kHaloMultiplyThreads / 32) {
    hopper::give_registers<halo_load_registers(kSets * kN)>();
    if (warp < (kHaloMultiplyThreads + kHaloLoaderThreads) / 32) {
      load_tiles<T, kTerms, kNMajor, halo_stores_images(kN, kSets)>(params, shared);
    } else if (threadIdx.x % 32 == 0) {
      load_weights(params, shared);
    }
  } else {
    hopper::take_registers<halo_multiply_registers(kSets * kN)>();
    // While the first tile and its weights are on their way.
    fill_staging_tables(params, kHaloMultiplyThreads, shared.columns, shared.segments);
    fill_shifts<kNMajor>(params.plan, shared.shifts);
    hopper::sync_threads<kMultipliersBarrier, kHaloMultiplyThreads>();
    multiply_and_store<T, kN, kSets, kTerms, kNMajor>(params, shared);
  }
#endif
}

}  // namespace convt3d
