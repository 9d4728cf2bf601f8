// What the loading warps of forward and input gradient do: a ring of buffers for staged tiles, another of slots for
// weights.
#pragma once

#include "device/overlap.cuh"
#include "device/ptx/async_copy.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/ptx/thread_barrier.cuh"
#include "engines/mma/correlation_params.cuh"
#include "engines/mma/pack_weight.cuh"
#include "engines/mma/ring.cuh"

namespace convt3d::mma {

constexpr int kSourceLoaders = 2;  // the barrier of the threads that load the source

// Where weights come for each box, one of the loading warps is for them.
template <typename T>
__device__ __forceinline__ int32_t source_threads(const CorrelationParams<T>& params) {
  return 32 * (params.weights_stay ? kTileLoadingWarps : kTileLoadingWarps - 1);
}

template <typename T>
__device__ __forceinline__ RingPlace buffers_of(const CorrelationParams<T>& params, const SharedLayout& layout) {
  return {reinterpret_cast<uint64_t*>(dynamic_shared_memory + layout.barriers), params.buffers};
}
template <typename T>
__device__ __forceinline__ RingPlace slots_of(const CorrelationParams<T>& params, const SharedLayout& layout) {
  return {reinterpret_cast<uint64_t*>(dynamic_shared_memory + layout.barriers) + 2 * kMostBuffers, params.slots};
}
// One thread.
template <typename T>
__device__ __forceinline__ void init_rings(const CorrelationParams<T>& params, const SharedLayout& layout,
                                           int32_t multiplying_warps) {
  auto* const barriers = reinterpret_cast<uint64_t*>(dynamic_shared_memory + layout.barriers);
  RingPlace::init(barriers, params.buffers, source_threads(params), multiplying_warps);
  if (!params.weights_stay) RingPlace::init(barriers + 2 * kMostBuffers, params.slots, 32, multiplying_warps);
  hopper::barrier_init_fence();
}

// All but the thread's last `pending` groups have arrived, or more.
__device__ __forceinline__ void wait_for_copies(int32_t pending) {
  if (pending <= 0) {
    async_wait<0>();
  } else if (pending == 1) {
    async_wait<1>();
  } else {
    async_wait<2>();
  }
}

// The stages of a phase: chunks of channels and, of split axes, taps.
struct StageCursor {
  int32_t unit[3] = {0, 0, 0};
  int32_t chunk = 0;

  // False at the phase's end, where it begins anew.
  template <typename T>
  __device__ __forceinline__ bool advance(const CorrelationParams<T>& params) {
#pragma unroll
    for (int i = 2; i >= 0; --i) {
      if (++unit[i] < params.tile.tile.axis[i].stages()) return true;
      unit[i] = 0;
    }
    if (++chunk < params.chunks) return true;
    chunk = 0;
    return false;
  }
};

// Bytes that follow each other, by `threads` threads of which this is number `thread`. Not committed.
__device__ __forceinline__ void copy_weight(uint32_t to, const unsigned char* from, int32_t bytes, int32_t thread,
                                            int32_t threads) {
  for (int32_t at = thread * kPieceBytes; at < bytes; at += threads * kPieceBytes) {
    async_copy<kPieceBytes>(to + static_cast<uint32_t>(at), from + at);
  }
}

// The source of the block's boxes and, at the beginning, weights that stay.
template <typename T>
class SourceLoad {
 public:
  __device__ __forceinline__ SourceLoad(const CorrelationParams<T>& params, const SharedLayout& layout, int32_t thread,
                                        int32_t step)
      : params_(params),
        layout_(layout),
        share_(*reinterpret_cast<const BlockShare*>(dynamic_shared_memory + layout.share)),
        coordinates_(reinterpret_cast<int32_t*>(dynamic_shared_memory + layout.coordinates)),
        thread_(thread),
        step_(step),
        tiles_(hopper::shared_address(dynamic_shared_memory) + static_cast<uint32_t>(layout.tiles)) {}

  __device__ __forceinline__ void run() const {
    const TileLoader<T> loader(params_.tile, coordinates_, thread_, source_threads(params_));
    Walk walk(params_, share_.first_box);
    RingPlace filling = buffers_of(params_, layout_);
    RingPlace full = filling;
    const int32_t ahead = max(params_.buffers - 1, 1);
    bool begins = true;
    int32_t pending = 0;  // stages that are on their way
    while (true) {
      for (; pending < ahead && walk.box < params_.box_count; ++pending) {
        if (walk.begins_box()) make_table(walk.box);
        filling.wait_emptied();
        loader.load(stage(walk, filling.index()));
        async_commit();
        filling.advance();
        walk.advance(params_);
      }
      if (pending == 0) return;
      if (begins && params_.weights_stay) {
        wait_for_kernel_before();  // which packs the weight
        copy_weight(hopper::shared_address(dynamic_shared_memory) + static_cast<uint32_t>(layout_.weights),
                    share_.weight, share_.steps * step_, thread_, source_threads(params_));
        async_commit();
        async_wait<0>();
      } else {
        wait_for_copies(pending - 1);
      }
      begins = false;
      TileStage filled{};
      filled.to = tiles_ + static_cast<uint32_t>(full.index() * params_.tile.tile.bytes());
      loader.round_copied(filled);
      full.arrive_filled();
      full.advance();
      --pending;
    }
  }

 private:
  // Stages that are loaded, one after another.
  struct Walk {
    int32_t box;
    int32_t loads = 0;  // of the box, so far begun through the stages
    StageCursor cursor;

    __device__ __forceinline__ Walk(const CorrelationParams<T>&, int32_t first) : box(first) {}
    __device__ __forceinline__ bool begins_box() const {
      return loads == 0 && cursor.chunk == 0 && (cursor.unit[0] | cursor.unit[1] | cursor.unit[2]) == 0;
    }
    __device__ __forceinline__ void advance(const CorrelationParams<T>& params) {
      const StagedTile& tile = params.tile.tile;
      if (cursor.advance(params)) return;
      const int32_t stages = params.chunks * tile.axis[0].stages() * tile.axis[1].stages() * tile.axis[2].stages();
      if (stages > 1 && ++loads < params.block_phases) return;
      loads = 0;
      box += params.walkers;
    }
  };

  __device__ __forceinline__ void make_table(int32_t number) const {
    const BlockBox box = box_at(params_, number);
    const int32_t threads = source_threads(params_);
    sync_threads(kSourceLoaders, threads);  // the table before is read
    fill_coordinates(params_.tile.tile, box.first, coordinates_, thread_, threads);
    sync_threads(kSourceLoaders, threads);
  }

  __device__ __forceinline__ TileStage stage(const Walk& walk, int32_t buffer) const {
    const int32_t before = walk.cursor.chunk * params_.chunk_steps * (kStepBytes / static_cast<int32_t>(sizeof(T)));
    const BlockBox box = box_at(params_, walk.box);
    TileStage result;
    result.image = box.image;
    result.first_w = box.first[2];
#pragma unroll
    for (int i = 0; i < 3; ++i) result.unit[i] = walk.cursor.unit[i];
    result.first_channel = share_.source_channel + before;
    result.channels = params_.k_channels - before;
    result.to = tiles_ + static_cast<uint32_t>(buffer * params_.tile.tile.bytes());
    return result;
  }

  const CorrelationParams<T>& params_;
  const SharedLayout& layout_;
  const BlockShare& share_;
  int32_t* coordinates_;
  int32_t thread_;
  int32_t step_;
  uint32_t tiles_;
};

// Weights that come again for each box. One warp.
template <typename T>
class WeightLoad {
 public:
  __device__ __forceinline__ WeightLoad(const CorrelationParams<T>& params, const SharedLayout& layout, int32_t lane,
                                        int32_t step)
      : params_(params), layout_(layout), lane_(lane), step_(step) {}

  __device__ __forceinline__ void run() const {
    const BlockShare& share = *reinterpret_cast<const BlockShare*>(dynamic_shared_memory + layout_.share);
    if (share.steps == 0) return;
    wait_for_kernel_before();  // which packs the weight
    const uint32_t slots = hopper::shared_address(dynamic_shared_memory) + static_cast<uint32_t>(layout_.weights);
    const int32_t slot_bytes = params_.slot_steps * step_;
    RingPlace filling = slots_of(params_, layout_);
    RingPlace full = filling;
    int32_t box = share.first_box;
    int32_t first = 0;  // step
    int32_t pending = 0;
    while (true) {
      for (; pending < params_.slots - 1 && box < params_.box_count; ++pending) {
        filling.wait_emptied();
        copy_weight(slots + static_cast<uint32_t>(filling.index() * slot_bytes), share.weight + int64_t{first} * step_,
                    min(params_.slot_steps, share.steps - first) * step_, lane_, 32);
        async_commit();
        filling.advance();
        first += params_.slot_steps;
        if (first < share.steps) continue;
        first = 0;
        box += params_.walkers;
      }
      if (pending == 0) return;
      wait_for_copies(pending - 1);
      full.arrive_filled();
      full.advance();
      --pending;
    }
  }

 private:
  const CorrelationParams<T>& params_;
  const SharedLayout& layout_;
  int32_t lane_;
  int32_t step_;
};

}  // namespace convt3d::mma
