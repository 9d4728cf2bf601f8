// What the loading warps of forward and input gradient do: three fill buffers with staged tiles, one fills slots with
// weights.
#pragma once

#include "device/overlap.cuh"
#include "device/ptx/async_copy.cuh"
#include "device/ptx/shared_memory.cuh"
#include "engines/mma/correlation/pack_weight.cuh"
#include "engines/mma/correlation/params.cuh"
#include "engines/mma/tile/pipeline.cuh"

namespace convt3d::mma {

// In shared memory.
struct BlockBarriers {
  StageBarriers buffers;
  StageBarriers slots;
};
static_assert(sizeof(BlockBarriers) <= kBarrierBytes);
static_assert(kMostBuffers <= kMostPipelineStages && kMostSlots <= kMostPipelineStages);

// The stages of a phase: chunks of channels and, of split axes, taps.
struct StageCursor {
  int32_t component[3];
  int32_t chunk;

  template <typename T>
  __device__ __forceinline__ StageCursor(const CorrelationParams<T>& params, int32_t stage) {
#pragma unroll
    for (int i = 2; i >= 0; --i) component[i] = params.by_stages[i].take(stage);
    chunk = stage;
  }
  template <typename T>
  __device__ __forceinline__ void advance(const CorrelationParams<T>& params) {
#pragma unroll
    for (int i = 2; i >= 0; --i) {
      if (++component[i] < static_cast<int32_t>(params.by_stages[i].value)) return;
      component[i] = 0;
    }
    ++chunk;
  }
};

// The stages of a block one after another, and where each of them is in shared memory.
struct StageWalk {
  int32_t box;
  int32_t phase = 0;  // of those that stages come again for
  bool begins_box = true;
  int32_t table = 0;
  int32_t raw = 0;  // rows
  int32_t stage;
  StageCursor cursor;
  StageTurn buffer;

  template <typename T>
  __device__ __forceinline__ StageWalk(const CorrelationParams<T>& params, const BlockShare& share)
      : box(share.first_box), stage(stages_of(params, share).first), cursor(params, stage) {}

  // A stage of split axes has a table of its own, others that of their box.
  template <typename T>
  __device__ __forceinline__ bool has_new_table(const CorrelationParams<T>& params) const {
    return begins_box || params.splits;
  }
  template <typename T>
  __device__ __forceinline__ void advance(const CorrelationParams<T>& params, const BlockShare& share) {
    const StageRange stages = stages_of(params, share);
    buffer.advance(params.buffers);
    if (++raw == params.ahead) raw = 0;
    const bool in_phase = ++stage < stages.end;
    if (in_phase) {
      cursor.advance(params);
    } else {
      stage = stages.first;
      cursor = StageCursor(params, stage);
    }
    begins_box = !in_phase && (params.stages == 1 || ++phase == params.block_phases);
    if (begins_box) {
      phase = 0;
      box += share.walkers;
    }
    if (has_new_table(params)) table = table == params.ahead ? 0 : table + 1;
  }
};

template <typename T, bool kChannelRows>
class SourceLoad {
 public:
  __device__ __forceinline__ SourceLoad(const CorrelationParams<T>& params, const SharedLayout& layout, int32_t thread)
      : params_(params),
        layout_(layout),
        share_(*reinterpret_cast<const BlockShare*>(dynamic_shared_memory + layout.share)),
        barriers_(reinterpret_cast<BlockBarriers*>(dynamic_shared_memory + layout.barriers)->buffers),
        meet_(&barriers_.loaders),
        fillers_{thread, kSourceThreads},
        loader_(params.load, thread, dynamic_shared_memory + layout.fixed) {}

  // Before all threads of the block meet.
  __device__ __forceinline__ void prepare() const { loader_.make_fixed(fillers_); }

  __device__ __forceinline__ void run() {
    if (params_.waits_for_source) {
      wait_for_kernel_before();
      begin_dependents();  // which may read the same copy, and need not wait for it
    }
    if (params_.only_copies) {
      for (StageWalk walk(params_, share_); walk.box < params_.end_box; walk.advance(params_, share_)) {
        begin(walk);
        hopper::barrier_arrive_copied(&barriers_.full[walk.buffer.index]);
      }
      async_commit();
      async_wait<0>();
      return;
    }
    const bool rows = params_.load.way == LoadWay::kRows;
    StageWalk begun(params_, share_);
    StageWalk settled = begun;
    int32_t pending = 0;  // stages that are on their way
    while (true) {
      for (; pending < params_.ahead && begun.box < params_.end_box; ++pending) {
        begin(begun);
        async_commit();
        begun.advance(params_, share_);
      }
      if (pending == 0) return;
      wait_for_copies(pending - 1);
      if (rows) {
        meet_();
        wait_until_empty(settled);
      }
      if (loader_.settles()) loader_.settle(stage_of(settled, box_of(settled)));
      arrive_warp(&barriers_.full[settled.buffer.index], hopper::lane_here());
      settled.advance(params_, share_);
      --pending;
    }
  }

 private:
  __device__ __forceinline__ void wait_until_empty(const StageWalk& walk) const {
    hopper::barrier_wait(&barriers_.empty[walk.buffer.index], walk.buffer.parity ^ 1);
  }
  // Raw rows are on their way before the buffer is there that they are transposed into.
  __device__ __forceinline__ void begin(const StageWalk& walk) {
    const LoadBox box = box_of(walk);
    const bool rows = params_.load.way == LoadWay::kRows;
    const bool has_new_table = walk.has_new_table(params_);
    if (has_new_table) loader_.make_table(box, dynamic_shared_memory + table_of(walk), fillers_);
    // Past it nobody reads the table, or the raw rows, that were here before: whoever met last has settled them.
    if (has_new_table || rows) meet_();
    if (!rows) wait_until_empty(walk);
    loader_.load(stage_of(walk, box));
  }
  __device__ __forceinline__ LoadBox box_of(const StageWalk& walk) const {
    const BlockBox at = box_at(params_.store, walk.box);
    LoadBox box;
    box.image = at.image;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      box.first[i] = int64_t{at.first[i]} * params_.load.tile.axis[i].step;
      box.component[i] = walk.cursor.component[i];
    }
    return box;
  }
  __device__ __forceinline__ int32_t table_of(const StageWalk& walk) const {
    return layout_.tables + walk.table * params_.table_bytes;
  }
  __device__ __forceinline__ LoadStage stage_of(const StageWalk& walk, const LoadBox& box) const {
    const int32_t before = walk.cursor.chunk * params_.chunk_steps * (kStepBytes / static_cast<int32_t>(sizeof(T)));
    const uint32_t shared = hopper::shared_address(dynamic_shared_memory);
    const auto address = [&](int32_t offset) { return shared + static_cast<uint32_t>(offset); };
    return {box,
            address(table_of(walk)),
            share_.source_channel + before,
            params_.k_channels - before,
            address(layout_.tiles + walk.buffer.index * params_.load.tile.bytes()),
            address(layout_.raw + walk.raw * params_.raw_bytes)};
  }

  const CorrelationParams<T>& params_;
  const SharedLayout& layout_;
  const BlockShare& share_;
  StageBarriers& barriers_;
  LoaderMeetings meet_;
  Fillers fillers_;
  TileLoader<T, kSourceThreads, kChannelRows ? LoadedTiles::kChannelRows : LoadedTiles::kRowsOfChannels> loader_;
};

// One warp.
template <typename T>
class WeightLoad {
 public:
  // `step`: bytes of one.
  __device__ __forceinline__ WeightLoad(const CorrelationParams<T>& params, const SharedLayout& layout, int32_t step)
      : params_(params), layout_(layout), step_(step) {}

  __device__ __forceinline__ void run() const {
    const BlockShare& share = *reinterpret_cast<const BlockShare*>(dynamic_shared_memory + layout_.share);
    StageBarriers& barriers = reinterpret_cast<BlockBarriers*>(dynamic_shared_memory + layout_.barriers)->slots;
    wait_for_kernel_before();  // which packs the weight
    if (share.steps == 0) return;
    StageTurn turn;
    int32_t first = 0;  // step
    for (int32_t box = share.first_box; box < params_.end_box;) {
      hopper::barrier_wait(&barriers.empty[turn.index], turn.parity ^ 1);
      copy(share.weight + int64_t{first} * step_, min(params_.slot_steps, share.steps - first) * step_,
           layout_.weights + turn.index * params_.slot_steps * step_);
      hopper::barrier_arrive_copied(&barriers.full[turn.index]);
      turn.advance(params_.slots);
      first += params_.slot_steps;
      if (first < share.steps) continue;
      first = 0;
      box = params_.weights_stay ? params_.end_box : box + share.walkers;
    }
    async_commit();
    async_wait<0>();
  }

 private:
  __device__ __forceinline__ static void copy(const unsigned char* from, int32_t bytes, int32_t to) {
    const uint32_t shared = hopper::shared_address(dynamic_shared_memory) + static_cast<uint32_t>(to);
#pragma unroll 4
    for (int32_t at = static_cast<int32_t>(threadIdx.x) % 32 * kPieceBytes; at < bytes; at += 32 * kPieceBytes) {
      async_copy<kPieceBytes>(shared + static_cast<uint32_t>(at), from + at);
    }
  }

  const CorrelationParams<T>& params_;
  const SharedLayout& layout_;
  int32_t step_;
};

}  // namespace convt3d::mma
