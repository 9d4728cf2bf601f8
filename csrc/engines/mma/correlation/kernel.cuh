// Forward and input gradient. A block has some channels and some phases, and computes them of one box of positions
// after another: some of its warps load boxes and weights, the others multiply what is there and store.
#pragma once

#include "device/small_quotient.h"
#include "engines/mma/correlation/load.cuh"
#include "engines/mma/correlation/store.cuh"

namespace convt3d::mma {

// Steps of K of each of a block's phases, in order, for one chunk: bytes from a position's row to the row and the
// channels that it is multiplied with. Stages of split axes are neighbours. The first `threads` threads.
template <typename T>
__device__ __forceinline__ void fill_steps(const CorrelationParams<T>& params, int32_t first_phase, int32_t threads,
                                           int32_t* table) {
  const StagedTile& tile = params.load.tile;
#pragma unroll 1
  for (int32_t p = 0; p < params.block_phases; ++p) {
    const Residue residue = residue_of(params, first_phase + p);
    const int32_t count = steps_of(params, residue);
    for (auto s = static_cast<int32_t>(threadIdx.x); s < count; s += threads) {
      int32_t rest = s;
      const int32_t k_step = take_small(rest, params.chunk_steps);
      int32_t row = 0;
#pragma unroll
      for (int i = 2; i >= 0; --i) {
        const int32_t taps = params.residues[i].tap_count[residue.at[i]];
        const int32_t number = take_small(rest, taps);
        const int32_t tap = params.residues[i].first_tap[residue.at[i]] + number * params.residues[i].tap_step;
        row += tile.axis[i].shift[tap] * tile.stride[i + 1];
        if (i == 2) row += tile.channel_rows.before(tile.axis[i].delta[tile.axis[i].split ? number : 0]);
      }
      constexpr int32_t kStepChannels = kStepBytes / static_cast<int32_t>(sizeof(T));
      table[s] = row * tile.pitch + k_step * kStepChannels * tile.channel_step(sizeof(T));
    }
    table += count;
  }
}

// One thread.
template <typename T, int kTerms>
__device__ __forceinline__ void fill_share(const CorrelationParams<T>& params, const ShapeExtent& extent,
                                           BlockShare& share) {
  const BlockPlace place(params);
  const auto n_blocks = static_cast<int32_t>(params.n_blocks.value);
  const int32_t column = place.group * n_blocks + place.n_block;  // of blocks of channels, of all groups
  share.number = column * static_cast<int32_t>(params.phase_blocks.value) + place.phase_block;
  share.split = place.split;
  share.walkers = place.walkers;
  share.first_phase = place.phase_block * params.block_phases;
  share.first_box = params.first_box + place.walker;
  share.first_channel = int64_t{place.group} * params.n_channels + place.n_block * extent.n();
  share.channels = min(params.n_channels - place.n_block * extent.n(), extent.n());
  share.source_channel = int64_t{place.group} * params.source_group;
  const Residue residue = residue_of(params, share.first_phase);
  int32_t before = 0;  // steps of other splits
  share.steps = 0;
  if (params.split.splits > 1) {
    const StageRange stages = stages_of(params, share);
    before = steps_before(params, residue, stages.first);
    share.steps = steps_before(params, residue, stages.end) - before;
  } else {
#pragma unroll 1
    for (int32_t p = 0; p < params.block_phases; ++p) {
      share.steps += steps_of(params, residue_of(params, share.first_phase + p)) * params.chunks;
    }
  }
  const int64_t all_taps = int64_t{params.residues[0].taps} * params.residues[1].taps * params.residues[2].taps;
  const int64_t first_step =
      (column * all_taps + taps_before(params.residues, residue.at[0], residue.at[1], residue.at[2])) *
          (params.chunks * params.chunk_steps) +
      before;
  share.weight = params.weight + first_step * step_bytes(extent, kTerms);
}

// Zeros past the channels that exist. The first `threads` threads.
template <typename T>
__device__ __forceinline__ void fill_bias(const CorrelationParams<T>& params, const BlockPlace& place, int32_t count,
                                          int32_t threads, float* bias) {
  for (auto n = static_cast<int32_t>(threadIdx.x); n < count; n += threads) {
    const int32_t in_group = place.n_block * count + n;
    const int64_t column = int64_t{place.group} * params.n_channels + in_group;
    const int64_t channel = params.store.stores_pairs ? column / 2 : column;
    bias[n] = in_group < params.n_channels ? bias_of<ElementOf<T>>(params.store.epilogue, channel) : 0;
  }
}

// What the multiplying warps do.
template <typename T, int kTerms, Shape kShape, bool kChannelRows>
class TileMultiplier {
  static constexpr ShapeExtent kExtent = shape_extent(kShape, kTerms);
  using Product = WarpProduct<T, kTerms, kExtent.warp_m, kExtent.warp_n, kChannelRows,
                              has_two_steps(kExtent, kTerms, kChannelRows)>;
  using Result = ElementOf<T>;

 public:
  __device__ __forceinline__ TileMultiplier(const CorrelationParams<T>& params, const SharedLayout& layout)
      : params_(params), layout_(layout) {}

  __device__ __forceinline__ void run() const {
    const StagedTile& tile = params_.load.tile;
    unsigned char* const shared = dynamic_shared_memory;
    BlockShare& share = *reinterpret_cast<BlockShare*>(shared + layout_.share);
    const auto warp = static_cast<int32_t>(threadIdx.x) / 32;
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
    const auto channel_bytes = static_cast<uint32_t>(kChannelRows ? tile.channel_rows.pitch : 0);
    uint32_t rows[Product::kNamed];
#pragma unroll
    for (int i = 0; i < Product::kNamed; ++i) {
      const typename Product::Named named = Product::name_row(i, lane, channel_bytes);
      int32_t m = warp / kExtent.warps_n * kExtent.warp_m + named.position;
      const int32_t w = params_.store.box_width.take(m);
      const BoxPlace place = params_.store.box_rows.place(m);
      const int32_t row =
          place.image * tile.stride[0] + place.d * tile.stride[1] + place.h * tile.stride[2] + w * tile.column_step;
      rows[i] = static_cast<uint32_t>(m < params_.store.box_rows.count ? row * tile.pitch : 0) + named.bytes;
    }
    Product product(rows,
                    static_cast<uint32_t>(warp % kExtent.warps_n * (kExtent.warp_n * kStepBytes * kTerms) +
                                          lane * Product::kLaneBytes),
                    kStep, channel_bytes);
    StageBarriers& buffers = barriers().buffers;
    StageTurn buffer;
    Weights weights(*this);
    for (int32_t box = share.first_box; box < params_.end_box; box += share.walkers) {
      weights.begin(share.steps);
      uint32_t steps = hopper::shared_address(shared) + static_cast<uint32_t>(layout_.steps);
      for (int32_t p = 0; p < params_.block_phases; ++p) {
        product.clear();
        const StageRange stages = stages_of(params_, share);  // read again: no registers are left to keep it
        for (int32_t stage = stages.first; stage < stages.end; ++stage) {
          // One stage serves all phases; several come again for each.
          if (params_.stages > 1 || p == 0) hopper::barrier_wait(&buffers.full[buffer.index], buffer.parity);
          const Steps some = steps_of_stage(residue_of(params_, share.first_phase + p), stage);
          weights.multiply(product, steps + static_cast<uint32_t>(some.first) * 4, some.count,
                           hopper::shared_address(shared) + static_cast<uint32_t>(hopper::computed_here(layout_.tiles) +
                                                                                  buffer.index * tile.bytes()));
          if (params_.stages > 1 || p == params_.block_phases - 1) {
            arrive_warp(&buffers.empty[buffer.index], hopper::lane_here());
            buffer.advance(params_.buffers);
          }
        }
        if (params_.split.splits > 1 && !SplitSum<Result, kTerms, kShape>(params_.split, share)(box, product.sum))
          continue;
        // Not kept while the warp multiplies.
        const Residue residue = residue_of(params_, share.first_phase + hopper::computed_here(p));
        BlockStore<Result, kTerms, kShape, !kChannelRows>(
            params_.store, share, static_cast<int32_t>(threadIdx.x),
            reinterpret_cast<const float*>(shared + hopper::computed_here(layout_.bias)),
            reinterpret_cast<int64_t*>(shared + hopper::computed_here(layout_.offsets)),
            shared + hopper::computed_here(layout_.staging))(box, hopper::computed_here(p) == 0, residue, product.sum);
        steps += static_cast<uint32_t>(steps_of(params_, residue)) * 4;
      }
    }
  }

 private:
  // Of a stage, among the steps of its phase and chunk.
  struct Steps {
    int32_t first;
    int32_t count;
  };
  __device__ __forceinline__ Steps steps_of_stage(const Residue& residue, int32_t stage) const {
    if (!params_.splits) return {0, steps_of(params_, residue)};
    int32_t component[3];
#pragma unroll
    for (int i = 2; i >= 0; --i) component[i] = params_.by_stages[i].take(stage);
    Steps steps{0, params_.chunk_steps};
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const int32_t taps = params_.residues[i].tap_count[residue.at[i]];
      const bool split = params_.load.tile.axis[i].split;
      if (!split) {
        steps.count *= taps;
      } else if (component[i] >= taps) {
        steps.count = 0;
      }
      steps.first = steps.first * taps + component[i];
    }
    steps.first *= params_.chunk_steps;
    return steps;
  }

  static constexpr uint32_t kStep = step_bytes(kExtent, kTerms);

  __device__ __forceinline__ BlockBarriers& barriers() const {
    return *reinterpret_cast<BlockBarriers*>(dynamic_shared_memory + layout_.barriers);
  }

  // The weights of a box, slot by slot.
  class Weights {
   public:
    __device__ __forceinline__ explicit Weights(const TileMultiplier& owner)
        : params_(owner.params_),
          barriers_(owner.barriers().slots),
          slots_(hopper::shared_address(dynamic_shared_memory) + static_cast<uint32_t>(owner.layout_.weights)) {}

    __device__ __forceinline__ void begin(int32_t steps) {
      left_ = steps;
      in_slot_ = 0;
    }

    __device__ __forceinline__ void multiply(Product& product, uint32_t table, int32_t count, uint32_t tile) {
      while (count > 0) {
        if (in_slot_ == 0) {
          hopper::barrier_wait(&barriers_.full[slot_.index], slot_.parity);
          at_ = slots_ + static_cast<uint32_t>(slot_.index * params_.slot_steps) * kStep;
          in_slot_ = min(params_.slot_steps, left_);
        }
        const int32_t now = min(count, in_slot_);
        product.add(table, now, tile, at_);
        table += static_cast<uint32_t>(now) * 4;
        count -= now;
        at_ += static_cast<uint32_t>(now) * kStep;
        in_slot_ -= now;
        left_ -= now;
        if (in_slot_ > 0 || params_.weights_stay) continue;
        arrive_warp(&barriers_.empty[slot_.index], hopper::lane_here());
        slot_.advance(params_.slots);
      }
    }

   private:
    const CorrelationParams<T>& params_;
    StageBarriers& barriers_;
    uint32_t slots_;
    StageTurn slot_;
    int32_t left_ = 0;     // steps of the box that are not multiplied yet
    int32_t in_slot_ = 0;  // steps of the slot that are not multiplied yet
    uint32_t at_ = 0;
  };

  const CorrelationParams<T>& params_;
  const SharedLayout& layout_;
};

template <typename T, int kTerms, Shape kShape, bool kChannelRows>
__global__ void __launch_bounds__(shape_extent(kShape, kTerms).threads(), shape_extent(kShape, kTerms).blocks)
    convt3d_mma_correlation(const __grid_constant__ CorrelationParams<T> params) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // elsewhere an empty body, which the plan never chooses
  if (!params.waits_for_source) begin_dependents();  // which wait for all of this kernel
  constexpr ShapeExtent kExtent = shape_extent(kShape, kTerms);
  const SharedLayout& layout = params.layout;
  constexpr int kThreads = 32 * kExtent.warps();
  unsigned char* const shared = dynamic_shared_memory;
  const auto thread = static_cast<int32_t>(threadIdx.x) - kThreads;
  // Everybody prepares something of what all wait for.
  if (thread < 0) {
    if (threadIdx.x == 0) {
      auto& barriers = *reinterpret_cast<BlockBarriers*>(shared + layout.barriers);
      barriers.buffers.begin(params.buffers, kSourceWarps, kExtent.warps(), params.only_copies);
      barriers.slots.begin(params.slots, kWeightWarps, kExtent.warps(), true);
    }
    const BlockPlace place(params);
    fill_steps(params, place.phase_block * params.block_phases, kThreads,
               reinterpret_cast<int32_t*>(shared + layout.steps));
    if (params.store.epilogue.bias.data != nullptr) {
      fill_bias(params, place, kExtent.n(), kThreads, reinterpret_cast<float*>(shared + layout.bias));
    }
  } else if (thread < kSourceThreads) {
    SourceLoad<T, kChannelRows>(params, layout, thread).prepare();
  } else if (thread == kSourceThreads) {
    fill_share<T, kTerms>(params, kExtent, *reinterpret_cast<BlockShare*>(shared + layout.share));
  }
  __syncthreads();
  if (thread < 0) {
    TileMultiplier<T, kTerms, kShape, kChannelRows>(params, layout).run();
  } else if (thread < kSourceThreads) {
    SourceLoad<T, kChannelRows>(params, layout, thread).run();
  } else {
    WeightLoad<T>(params, layout, step_bytes(kExtent, kTerms)).run();
  }
#endif
}

}  // namespace convt3d::mma
