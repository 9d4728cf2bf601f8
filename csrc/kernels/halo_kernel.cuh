// Forward on Hopper's matrix units. A block stays on its multiprocessor and takes one item (a tile's share of the
// units) after another. Its warps have roles, linked by barriers only:
//   warpgroups 0, 1   multiply and store: each its half of the tile's columns, all units
//   warps 8-10        load the tiles of the input, ahead of the multiplication
//   warp 11           keeps the ring of weights filled
//
//   A (64 x K of a stage)  weights, from the ring
//   B (K x kN positions)   neighbouring positions of the tile, shifted by the offset of the tap
#pragma once

#include <type_traits>

#include "kernels/halo_epilogue.cuh"
#include "kernels/halo_loader.cuh"
#include "kernels/hopper.cuh"
#include "kernels/wgmma.cuh"

namespace convt3d {

constexpr int kHaloThreads = 384;
constexpr int kHaloMultiplyThreads = 32 * kHaloMultiplyWarps;
// Of a thread of each kind, as large as the accumulators leave room for.
constexpr int halo_multiply_registers(int columns) { return columns == 256 ? 200 : 192; }
constexpr int halo_load_registers(int columns) { return columns == 256 ? 104 : 120; }

struct HaloBarriers {
  uint64_t weights_full[kHaloMaxRing];
  uint64_t weights_empty[kHaloMaxRing];
  uint64_t copied[kHaloMaxSlots];  // a tile that is still to be split in two terms
  uint64_t tile_full[kHaloMaxSlots];
  uint64_t tile_empty[kHaloMaxSlots];
  uint64_t box_full[kHaloLoaderWarps][kHaloBoxBuffers];
  uint64_t turn[2];  // of each multiplying warpgroup
};

// For every step of a chunk's segments, how far the operand lies from the warpgroup's first column, in units of 16
// bytes; by all threads of the block.
__device__ __forceinline__ void fill_shifts(const HaloPlan& plan, uint16_t* shifts) {
  const int panel_steps = plan.row_bytes / kHaloOperandBytes;
  for (int segment = 0; segment < plan.phases * plan.sets; ++segment) {
    const HaloPhase phase = halo_phase(plan, segment / plan.sets, segment % plan.sets);
    const HaloTaps& taps_d = plan.axis[0].taps[phase.depth];
    const HaloTaps& taps_h = plan.axis[1].taps[phase.height];
    const HaloTaps& taps_w = plan.axis[2].taps[phase.width];
    uint16_t* entries = shifts + plan.segment_first[segment] * plan.stage_steps();
    for (int step = static_cast<int>(threadIdx.x); step < plan.segment_steps[segment];
         step += static_cast<int>(blockDim.x)) {
      const int tap_step = step % plan.tap_steps;
      int entry = step / plan.tap_steps;
      const int w = taps_w.offset[entry % taps_w.count] - plan.axis[2].low;
      entry /= taps_w.count;
      const int offset_h = taps_h.offset[entry % taps_h.count];
      const int offset_d = taps_d.offset[entry / taps_h.count];
      const int h = plan.axis[1].step_of(offset_h) - plan.axis[1].low;
      const int d = plan.axis[0].step_of(offset_d) - plan.axis[0].low;
      const int fold = plan.axis[0].fold_of(offset_d) * plan.axis[1].fold + plan.axis[1].fold_of(offset_h);
      const int position = ((d * plan.halo[1] + h) * plan.halo[2] + w) << plan.image_log;
      const int bytes = tap_step / panel_steps * plan.panel_bytes() + fold * plan.fold_bytes +
                        position * plan.row_bytes + tap_step % panel_steps * kHaloOperandBytes;
      entries[step] = static_cast<uint16_t>(bytes / 16);
    }
  }
}

// A place in a ring of barriers, and the parity of its next completion.
struct HaloPlace {
  int slot = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance(int slots) {
    if (++slot == slots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

struct HaloShared {
  HaloBarriers* barriers;
  unsigned char* tiles;
  unsigned char* staging;
  unsigned char* ring;
  uint16_t* columns;
  HaloStoredSegment* segments;
  uint16_t* shifts;
  unsigned char* boxes;

  __device__ __forceinline__ HaloShared(const HaloMemory& memory, unsigned char* shared)
      : barriers(reinterpret_cast<HaloBarriers*>(shared)),
        tiles(shared + memory.tiles),
        staging(shared + memory.staging),
        ring(shared + memory.ring),
        columns(reinterpret_cast<uint16_t*>(shared + memory.columns)),
        segments(reinterpret_cast<HaloStoredSegment*>(shared + memory.segments)),
        shifts(reinterpret_cast<uint16_t*>(shared + memory.shifts)),
        boxes(shared + memory.boxes) {}
};
static_assert(sizeof(HaloBarriers) + 128 <= kHaloBarrierBytes);

// Resident weights stay in the ring where all items of a block use them.
__device__ __forceinline__ bool keeps_weights(const HaloPlan& plan) {
  return plan.resident_weights && gridDim.x % static_cast<uint32_t>(plan.splits * plan.groups) == 0;
}

template <typename T, int kTerms>
__device__ __forceinline__ void load_tiles(const HaloParams<T>& params, const HaloShared& shared, uint32_t items) {
  const HaloPlan& plan = params.plan;
  const int thread = static_cast<int>(threadIdx.x) - kHaloMultiplyThreads;
  // One thread has the tiles copied; where there are two terms, the other warps split what has arrived.
  if (params.load == HaloLoad::kCopy && thread > 0 && (kTerms == 1 || thread < 32)) return;
  HaloPlace place;
  const auto panels = [&] { return shared.tiles + place.slot * plan.slot_bytes(); };
  const auto enter = [&] { hopper::barrier_wait(&shared.barriers->tile_empty[place.slot], place.parity ^ 1); };
  const auto publish = [&] {
    hopper::fence_async_proxy();
    hopper::barrier_arrive(&shared.barriers->tile_full[place.slot]);
  };
  HaloLoadCursor load(plan);
  if (params.load == HaloLoad::kTranspose) {
    const int warp = hopper::warp_index() - kHaloMultiplyWarps;
    HaloTransposer<T, kTerms> transposer(params, warp, items, shared.boxes + warp * kHaloBoxBuffers * kHaloBoxBytes,
                                         shared.barriers->box_full[warp]);
    for (; load.index() < items; load.advance()) {
      const HaloOrigin origin(plan, HaloItem(plan, load.index()));
      transposer.load(origin, load.first_panel(), panels(), enter);
      publish();
      place.advance(plan.slots);
    }
    return;
  }
  for (; load.index() < items; load.advance()) {
    const HaloItem item(plan, load.index());
    const HaloOrigin origin(plan, item);
    if (params.load == HaloLoad::kCopy) {
      uint64_t* copied = kTerms == 1 ? &shared.barriers->tile_full[place.slot] : &shared.barriers->copied[place.slot];
      if (kTerms == 1 || thread == 0) {
        enter();
        copy_halo_tile(params, item, origin, load.first_panel(), panels(), copied);
      } else {
        hopper::barrier_wait(copied, place.parity);
        split_halo_tile(plan, thread - 32, panels());
        publish();
      }
    } else {
      const int64_t offset = item.image * params.source.stride.n +
                             static_cast<int64_t>(item.group) * plan.in_channels * params.source.stride.c;
      const int64_t images = plan.batch - item.image;
      enter();
      if (params.source.pieces) {
        load_halo_tile<T, kTerms, true>(params, thread, offset, images, origin, load.first_panel(), panels());
      } else {
        load_halo_tile<T, kTerms, false>(params, thread, offset, images, origin, load.first_panel(), panels());
      }
      publish();
    }
    place.advance(plan.slots);
  }
}

template <typename T>
__device__ __forceinline__ void load_weights(const HaloParams<T>& params, const HaloShared& shared, uint32_t items) {
  const HaloPlan& plan = params.plan;
  const bool keeps = keeps_weights(plan);
  HaloPlace place;
  hopper::wait_for_predecessors();  // which packed the weight
  for (uint32_t index = blockIdx.x; index < items; index += gridDim.x) {
    const HaloStream stream(plan, HaloItem(plan, index));
    const unsigned char* source = params.weight + stream.first * kHaloStageBytes;
    for (int stage = 0; stage < stream.stages; ++stage) {
      uint64_t* full = &shared.barriers->weights_full[place.slot];
      hopper::barrier_wait(&shared.barriers->weights_empty[place.slot], place.parity ^ 1);
      hopper::barrier_arrive_expect(full, kHaloStageBytes);
      hopper::copy_to_shared(shared.ring + place.slot * kHaloStageBytes, source, kHaloStageBytes, full);
      source += kHaloStageBytes;
      place.advance(plan.ring);
    }
    if (keeps) return;
  }
}

template <int kSets, int kN>
__device__ __forceinline__ void clear(float (&c)[kSets][kN]) {
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
#pragma unroll
    for (int i = 0; i < kN; ++i) c[set][i] = 0;
  }
}

// The compiler knows of no other link between the accumulators and the wait for the products that fill them.
template <int kN>
__device__ __forceinline__ void fence_registers(float (&c)[kN]) {
#pragma unroll
  for (int i = 0; i < kN; ++i) asm volatile("" : "+f"(c[i])::"memory");
}

// The weights of a warpgroup's items, stage after stage, and the slots that its products leave behind. Every warp hands
// back what it has read on its own.
class HaloReader {
 public:
  __device__ __forceinline__ HaloReader(const HaloShared& shared, const HaloPlan& plan)
      : barriers_(shared.barriers),
        ring_(plan.ring),
        resident_(plan.resident_weights),
        base_(hopper::matrix_descriptor(hopper::shared_address(shared.ring), kHaloBlockBytes / 2, 128)) {}

  // Descriptor of the next stage, once it has arrived.
  __device__ __forceinline__ uint64_t arrived() {
    hopper::barrier_wait(&barriers_->weights_full[place_.slot], place_.parity);
    return base_ + static_cast<uint32_t>(place_.slot * (kHaloStageBytes / 16));
  }
  // The products of the stage were committed.
  __device__ __forceinline__ void pass_stage() {
    place_.advance(ring_);
    ++held_;
  }
  // All products but those of the last stage are done.
  __device__ __forceinline__ void release_before() {
    if (!resident_) release(held_ - 1);
    release_tile();
  }
  // All issued products are done.
  __device__ __forceinline__ void release_all() {
    if (!resident_) release(held_);
    release_tile();
  }
  __device__ __forceinline__ void leave_tile(int slot) {
    release_tile();  // of a unit without products
    tile_ = slot;
  }
  // `keep`: all items read the same weights, which stay from the ring's first stage on.
  __device__ __forceinline__ void end_item(bool keep) {
    if (keep) {
      place_ = HaloPlace();
      held_ = 0;
    } else {
      release(held_);
    }
  }

 private:
  __device__ __forceinline__ void release(int stages) {
    for (; stages > 0; --stages, --held_) {
      if (threadIdx.x % 32 == 0) hopper::barrier_arrive(&barriers_->weights_empty[free_.slot]);
      free_.advance(ring_);
    }
  }
  __device__ __forceinline__ void release_tile() {
    if (tile_ >= 0 && threadIdx.x % 32 == 0) hopper::barrier_arrive(&barriers_->tile_empty[tile_]);
    tile_ = -1;
  }

  HaloBarriers* barriers_;
  int ring_;
  bool resident_;
  uint64_t base_;
  HaloPlace place_;
  HaloPlace free_;  // next to hand back
  int held_ = 0;    // stages passed and not handed back
  int tile_ = -1;   // slot of the tile's ring that was left
};

// One segment: every tap of one set of accumulators on one chunk of channels. `b`: descriptor of the warpgroup's first
// column; `shifts`: of the segment.
template <typename T, int kN>
__device__ __forceinline__ void multiply_segment(int steps, const uint16_t* shifts, uint64_t b, float (&c)[kN / 2],
                                                 HaloReader& reader) {
  constexpr int kBlock = kHaloBlockBytes / 16;
  for (int stage = 0; stage < steps / kHaloStageBlocks; ++stage) {
    const uint64_t a = reader.arrived();
    const ushort4 shift = reinterpret_cast<const ushort4*>(shifts)[stage];
    hopper::wgmma_fence();
    hopper::Wgmma<T, kN>::multiply(c, a, b + shift.x);
    hopper::Wgmma<T, kN>::multiply(c, a + kBlock, b + shift.y);
    hopper::Wgmma<T, kN>::multiply(c, a + 2 * kBlock, b + shift.z);
    hopper::Wgmma<T, kN>::multiply(c, a + 3 * kBlock, b + shift.w);
    hopper::wgmma_commit();
    hopper::wgmma_wait<1>();
    reader.pass_stage();
    reader.release_before();
  }
  const int left = steps % kHaloStageBlocks;
  if (left == 0) return;
  const uint64_t a = reader.arrived();
  shifts += steps - left;
  for (int i = 0; i < left; ++i) {
    hopper::wgmma_fence();
    hopper::Wgmma<T, kN>::multiply(c, a + static_cast<uint32_t>(i * kBlock), b + shifts[i]);
  }
  hopper::wgmma_commit();
  hopper::wgmma_wait<1>();
  reader.pass_stage();
  reader.release_before();
}

// Of one step of K of two terms: the products with a low term, which come before those of the high terms, as the tensor
// cores cut each sum. Of the low terms' product nothing would be left. `b_low`: from the high term's panels to the low
// one's.
template <bool kAdd, int kN>
__device__ __forceinline__ void multiply_low(float (&c)[kN / 2], uint64_t a, uint64_t b, uint32_t b_low) {
  hopper::Wgmma<float, kN>::template multiply<kAdd>(c, a + kHaloBlockBytes / 16, b);
  hopper::Wgmma<float, kN>::multiply(c, a, b + b_low);
}

// The same of two terms. The tensor cores' cut adds up to more than float32's rounding: two stages are summed in
// `products` and then added to `c`.
template <int kN>
__device__ __forceinline__ void multiply_segment_of_terms(int steps, const uint16_t* shifts, uint64_t b, uint32_t b_low,
                                                          float (&products)[kN / 2], float (&c)[kN / 2],
                                                          HaloReader& reader) {
  constexpr int kStep = 2 * kHaloBlockBytes / 16;
  using Product = hopper::Wgmma<float, kN>;
  const auto next = [&] {
    const uint64_t a = reader.arrived();
    reader.pass_stage();
    return a;
  };
  const auto flush = [&] {
    hopper::wgmma_wait<0>();
    fence_registers(products);
    reader.release_all();
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) c[i] += products[i];
  };
  int step = 0;
  for (; step + 4 <= steps; step += 4) {
    const ushort2 first = *reinterpret_cast<const ushort2*>(shifts + step);
    const ushort2 second = *reinterpret_cast<const ushort2*>(shifts + step + 2);
    const uint64_t a = next();
    const uint64_t a2 = next();
    hopper::wgmma_fence();
    multiply_low<false, kN>(products, a, b + first.x, b_low);
    multiply_low<true, kN>(products, a + kStep, b + first.y, b_low);
    multiply_low<true, kN>(products, a2, b + second.x, b_low);
    multiply_low<true, kN>(products, a2 + kStep, b + second.y, b_low);
    Product::multiply(products, a, b + first.x);
    Product::multiply(products, a + kStep, b + first.y);
    Product::multiply(products, a2, b + second.x);
    Product::multiply(products, a2 + kStep, b + second.y);
    hopper::wgmma_commit();
    flush();
  }
  for (; step < steps; step += 2) {
    const uint64_t a = next();
    hopper::wgmma_fence();
    multiply_low<false, kN>(products, a, b + shifts[step], b_low);
    Product::multiply(products, a, b + shifts[step]);
    hopper::wgmma_commit();
    if (step + 1 < steps) {
      hopper::wgmma_fence();
      multiply_low<true, kN>(products, a + kStep, b + shifts[step + 1], b_low);
      Product::multiply(products, a + kStep, b + shifts[step + 1]);
      hopper::wgmma_commit();
    }
    flush();
  }
}

template <typename T, int kN, int kSets, int kTerms>
__device__ __forceinline__ void multiply_and_store(const HaloParams<T>& params, const HaloShared& shared,
                                                   uint32_t items) {
  const HaloPlan& plan = params.plan;
  const int warp = hopper::warp_index();
  const bool second = warp >= 4;
  const int chunks = plan.chunks();
  const int units = plan.units() / plan.splits;
  const uint64_t b_base =
      hopper::swizzled_descriptor(hopper::shared_address(shared.tiles), static_cast<uint32_t>(plan.row_bytes)) +
      static_cast<uint32_t>(second ? plan.second_start * plan.row_bytes / 16 : 0);
  HaloReader reader(shared, plan);
  HaloEpilogue<T, kN, kSets> epilogue(params, second ? 1 : 0, shared.columns + (second ? kN : 0),
                                      shared.segments + (second ? plan.staging.segments[0] : 0),
                                      shared.staging + warp * plan.staging.warp_bytes);
  HaloPlace tile;
  uint32_t turn_parity = second ? 0 : 1;  // the first warpgroup begins
  const bool keeps = keeps_weights(plan);
  bool begins = second && !plan.alternate;
  for (uint32_t index = blockIdx.x; index < items; index += gridDim.x) {
    const HaloItem item(plan, index);
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
        if (chunks > 1 || unit == 0) {
          hopper::barrier_wait(&shared.barriers->tile_full[tile.slot], tile.parity);
          if (begins) hopper::wait_clocks(plan.lag_clocks());
          begins = false;
        }
        const uint64_t b = b_base + static_cast<uint32_t>(tile.slot * (plan.slot_bytes() / 16));
#pragma unroll
        for (int set = 0; set < kSets; ++set) {
          const int segment = phase_index * kSets + set;
          const int steps = plan.segment_steps[segment];
          const uint16_t* shifts = shared.shifts + plan.segment_first[segment] * (kHaloStageBlocks / kTerms);
          if constexpr (kTerms == 1) {
            multiply_segment<T, kN>(steps, shifts, b, c[set], reader);
          } else {
            multiply_segment_of_terms<kN>(steps, shifts, b, static_cast<uint32_t>(plan.term_bytes() / 16), products,
                                          c[set], reader);
          }
        }
        if (chunks > 1 || last) {
          reader.leave_tile(tile.slot);
          tile.advance(plan.slots);
        }
      }
      if (plan.alternate && threadIdx.x % 32 == 0) hopper::barrier_arrive(&shared.barriers->turn[second ? 0 : 1]);
      if constexpr (kTerms == 1) {
        hopper::wgmma_wait<0>();
#pragma unroll
        for (int set = 0; set < kSets; ++set) fence_registers(c[set]);
      }
      reader.release_all();
      if (last) reader.end_item(keeps);
      epilogue.store(c);
      if (++phase_index == plan.phases) {
        phase_index = 0;
        ++m_tile;
      }
    }
  }
  epilogue.finish();
}

template <typename T, int kN, int kSets, int kTerms>
__global__ void __launch_bounds__(kHaloThreads, 1) convt3d_halo_forward(const __grid_constant__ HaloParams<T> params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // elsewhere an empty body, which the plan never chooses
  const HaloShared shared(params.plan.memory, halo_memory());
  const uint32_t items = static_cast<uint32_t>(params.plan.items());
  const int warp = hopper::warp_index();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kHaloMaxRing; ++i) {
      hopper::barrier_init(&shared.barriers->weights_full[i], 1);
      hopper::barrier_init(&shared.barriers->weights_empty[i], kHaloMultiplyThreads / 32);
    }
    const int loaders = params.load != HaloLoad::kCopy ? kHaloLoaderThreads : kTerms == 1 ? 1 : kHaloSplitThreads;
    for (int i = 0; i < kHaloMaxSlots; ++i) {
      hopper::barrier_init(&shared.barriers->copied[i], 1);
      hopper::barrier_init(&shared.barriers->tile_full[i], loaders);
      hopper::barrier_init(&shared.barriers->tile_empty[i], kHaloMultiplyThreads / 32);
    }
    for (auto& warp_boxes : shared.barriers->box_full) {
      for (uint64_t& box_full : warp_boxes) hopper::barrier_init(&box_full, 1);
    }
    for (uint64_t& turn : shared.barriers->turn) hopper::barrier_init(&turn, kHaloMultiplyThreads / 64);
    hopper::barrier_init_fence();
  }
  fill_staging_tables(params, shared.columns, shared.segments);
  fill_shifts(params.plan, shared.shifts);
  __syncthreads();
  if (warp >= kHaloMultiplyThreads / 32) {
    hopper::give_registers<halo_load_registers(kSets * kN)>();
    if (warp < (kHaloMultiplyThreads + kHaloLoaderThreads) / 32) {
      load_tiles<T, kTerms>(params, shared, items);
    } else if (threadIdx.x % 32 == 0) {
      load_weights(params, shared, items);
    }
  } else {
    hopper::take_registers<halo_multiply_registers(kSets * kN)>();
    multiply_and_store<T, kN, kSets, kTerms>(params, shared, items);
  }
#endif
}

}  // namespace convt3d
