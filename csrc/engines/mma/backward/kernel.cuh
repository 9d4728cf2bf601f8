// All gradients from one read of grad_output, where no tap meets another. A block of the weight gradient whose stages
// are read by more warps: they multiply positions' rows, of all taps and channels, with the weight, and store rows of
// the input gradient.
#pragma once

#include "device/overlap.cuh"
#include "engines/mma/backward/bias_sums.cuh"
#include "engines/mma/backward/warpgroup_product.cuh"
#include "engines/mma/correlation/pack_weight.cuh"
#include "engines/mma/correlation/store.cuh"
#include "engines/mma/weight_grad/kernel.cuh"

namespace convt3d::mma {

static_assert(kMultipliers < 16 && sizeof(BlockShare) <= kShareBytes);

// The named barrier of all warps that multiply.
constexpr int kBackwardMultipliers = 3;

// Fills the table of steps of K: for each step of channels all taps, one after another.
template <typename T>
__device__ __forceinline__ void fill_tap_steps(const BackwardParams<T>& params, int32_t* table,
                                               const Fillers& fillers) {
  const StagedTile& tile = params.grad.source[0].tile;
  const int32_t count = params.taps * params.channel_steps;
  for (int32_t s = fillers.thread; s < count + kFurtherSteps; s += fillers.count) {
    int32_t channel_step = s;
    int32_t rest = take_small(channel_step, params.taps);
    int32_t row = 0;
#pragma unroll
    for (int i = 2; i >= 0; --i) {
      const TapParts& taps = params.grad.taps[i];
      const bool coordinates = i == 2 && tile.has_channel_rows();
      const int32_t tap = take_small(rest, taps.taps);
      row += (coordinates ? taps.coordinates(tap) : taps.shift(tap)) * tile.stride[i + 1];
    }
    row += tile.channel_rows.before(tile.axis[2].delta[0]);
    constexpr int32_t kStepChannels = kStepBytes / static_cast<int32_t>(sizeof(T));
    table[s] = s >= count ? 0 : row * tile.pitch + channel_step * kStepChannels * tile.channel_step(sizeof(T));
  }
}

// What the warps of the input gradient do. kChannelRows: grad_output's tile has them. kWarpgroup: they are a warpgroup
// with Hopper's products.
template <typename T, int kTerms, Shape kShape, bool kChannelRows, bool kWarpgroup>
class InputMultiplier {
  static constexpr ShapeExtent kExtent = shape_extent(kShape, kTerms);
  static_assert(kExtent.warps() == kInputWarps && kExtent.registers() * kBackwardThreads <= kRegisters);
  // Width pairs of that tile would spill.
  static constexpr bool kTwoSteps =
      has_two_steps(kExtent, kTerms, kChannelRows) && !(kIsPaired<T> && kShape == Shape::k128x32);
  static_assert(!kWarpgroup || (kTerms == 1 && std::is_same_v<T, float>));
  using Product = std::conditional_t<kWarpgroup, WarpgroupProduct<kShape, kChannelRows>,
                                     WarpProduct<T, kTerms, kExtent.warp_m, kExtent.warp_n, kChannelRows, kTwoSteps>>;

 public:
  // `thread`: number among the threads of the input gradient.
  __device__ __forceinline__ InputMultiplier(const BackwardParams<T>& params, unsigned char* shared, int32_t thread)
      : params_(params), shared_(shared), thread_(thread) {}

  __device__ __forceinline__ void run() const {
    load_weights();
    const WeightGradParams<T>& grad = params_.grad;
    const int32_t lane = thread_ % 32;
    const int32_t warp_m = warp_m_here();
    uint32_t rows[Product::kNamed];
    const int32_t positions = params_.store.box_rows.count * static_cast<int32_t>(params_.store.box_width.value);
    const auto channel_bytes = static_cast<uint32_t>(grad.source[0].tile.channel_step(sizeof(T)));
#pragma unroll
    for (int i = 0; i < Product::kNamed; ++i) {
      const typename Product::Named named = Product::name_row(i, lane, channel_bytes);
      const int32_t m = warp_m * kExtent.warp_m + named.position;
      rows[i] = (m < positions ? row_of(m) : 0) + named.bytes;
    }
    Product product(
        rows,
        static_cast<uint32_t>(warp_n_here() * (kExtent.warp_n * kStepBytes * kTerms) + lane * Product::kLaneBytes),
        kStep, channel_bytes);
    const uint32_t shared = hopper::shared_address(shared_);
    const auto address = [&](int32_t offset) { return shared + static_cast<uint32_t>(offset); };
    auto& barriers = *reinterpret_cast<StageBarriers*>(shared_ + grad.layout.barriers);
    const BlockShare& share = *reinterpret_cast<const BlockShare*>(shared_ + params_.layout.share);
    // The end is read again for each box, as no registers are left to keep it.
    const auto end = [&] {
      const unsigned char* const shares = shared_ + hopper::computed_here(grad.layout.shares);
      return share.first_box + reinterpret_cast<const GradShare*>(shares)->boxes;
    };
    StageTurn turn;
    for (int32_t box = share.first_box; box < end(); ++box) {
      hopper::barrier_wait(&barriers.full[turn.index], turn.parity);
      const uint32_t staged = address(grad.layout.stages + turn.index * grad.layout.stage_bytes);
      product.clear();
      // A warpgroup takes all steps at once.
      const int32_t steps = kWarpgroup ? params_.taps * params_.channel_steps : params_.taps;
      for (int32_t c = 0; c < (kWarpgroup ? 1 : params_.channel_steps); ++c) {
        const int32_t step = c * params_.taps;
        product.add(address(params_.layout.steps + 4 * step), steps, staged,
                    address(params_.layout.weights + step * static_cast<int32_t>(kStep)));
      }
      arrive_warp(&barriers.empty[turn.index]);
      turn.advance(grad.stages);
      BlockStore<ElementOf<T>, kTerms, kShape, false>(
          params_.store, share, thread_, nullptr,
          reinterpret_cast<int64_t*>(shared_ + hopper::computed_here(params_.layout.offsets)),
          shared_ + hopper::computed_here(params_.layout.staging))(box, true, Residue{}, product.sum);
    }
  }

 private:
  static constexpr uint32_t kStep = step_bytes(kExtent, kTerms);

  // The warp's number along the positions and along the channels, which no register keeps while the warp multiplies.
  __device__ __forceinline__ int32_t warp_m_here() const {
    return hopper::computed_here(thread_) / 32 / kExtent.warps_n;
  }
  __device__ __forceinline__ int32_t warp_n_here() const {
    return hopper::computed_here(thread_) / 32 % kExtent.warps_n;
  }

  // Bytes from the first position's row of grad_output to that of a position of the box.
  __device__ __forceinline__ uint32_t row_of(int32_t m) const {
    const WeightGradParams<T>& grad = params_.grad;
    const auto* const entries = reinterpret_cast<const PositionEntry*>(shared_ + grad.layout.positions);
    if constexpr (kIsPaired<T>) {
      return entries[entry_of_position(m / 2)].grad + static_cast<uint32_t>(m % 2 * grad.pairs_apart) * sizeof(T);
    } else {
      return entries[kChannelRows ? entry_of_position(m) : m].grad;
    }
  }

  // Loads all packed weights of the group, which stay.
  __device__ __forceinline__ void load_weights() const {
    wait_for_kernel_before();  // which packs them
    const int32_t bytes = params_.taps * params_.channel_steps * static_cast<int32_t>(kStep);
    const unsigned char* const from = params_.weight + GradTile(params_.grad, blockIdx.x).group * bytes;
    const uint32_t to = hopper::shared_address(shared_ + params_.layout.weights);
    if constexpr (kWarpgroup) {
      // Of a lane's piece, words lane%4 and lane%4 + 4 of two columns, each goes to where a warpgroup reads it.
      constexpr int32_t kColumnPieces = kExtent.warp_n / 16 * 32;  // of a step
#pragma unroll 4
      for (int32_t piece = thread_; piece < bytes / kPieceBytes; piece += kInputThreads) {
        const int32_t lane = piece % 32;
        const int32_t column = piece % kColumnPieces / 32 * 16 + lane / 4;
        const uint32_t word = to + static_cast<uint32_t>(piece / kColumnPieces * static_cast<int32_t>(kStep) +
                                                         column * kPieceBytes + lane % 4 * 4);
        const uint4 words = *reinterpret_cast<const uint4*>(from + piece * kPieceBytes);
        constexpr uint32_t kHalf = kExtent.warp_n * kPieceBytes;
        hopper::store_shared(word, words.x);
        hopper::store_shared(word + kHalf, words.y);
        hopper::store_shared(word + 8 * kPieceBytes, words.z);
        hopper::store_shared(word + kHalf + 8 * kPieceBytes, words.w);
      }
      // What follows the last step.
      const int32_t end = params_.weight_steps * static_cast<int32_t>(kStep);
      for (int32_t at = bytes + thread_ * kPieceBytes; at < end; at += kInputThreads * kPieceBytes)
        hopper::store_shared(to + static_cast<uint32_t>(at), uint4{}, true);
      hopper::fence_async_proxy();
    } else {
#pragma unroll 4
      for (int32_t at = thread_ * kPieceBytes; at < bytes; at += kInputThreads * kPieceBytes)
        async_copy<kPieceBytes>(to + static_cast<uint32_t>(at), from + at);
      async_commit();
      async_wait<0>();
    }
    sync_threads(kMultipliers, kInputThreads);
  }

  const BackwardParams<T>& params_;
  unsigned char* shared_;
  int32_t thread_;
};

template <typename T, int kTerms, Shape kShape, bool kChannelRows, bool kWarpgroup>
__device__ __forceinline__ void compute_backward(const BackwardParams<T>& params) {
  begin_dependents();  // who adds the sums waits for them
  constexpr int kColumns = backward_columns(kShape, kTerms);
  unsigned char* const shared = dynamic_shared_memory;
  const WeightGradParams<T>& grad = params.grad;
  const GradTile tile(grad, blockIdx.x);
  constexpr bool kLoadersSumBias = !RowBiasSums<T, kTerms>::kExist;
  const bool sums = kLoadersSumBias && sums_bias(grad, tile);
  if (threadIdx.x == 0) {
    BlockShare& share = *reinterpret_cast<BlockShare*>(shared + params.layout.share);
    share.first_channel = tile.group * grad.n_channels;
    share.channels = grad.n_channels;
    share.first_box = static_cast<int32_t>(tile.split) * grad.split_boxes;
    reinterpret_cast<StageBarriers*>(shared + grad.layout.barriers)
        ->begin(grad.stages, kLoadingWarps, kGradWarps + kInputWarps + (sums ? kLoadingWarps : 0), grad.only_copies);
  }
  __syncthreads();
  const auto thread = static_cast<int32_t>(threadIdx.x) - 32 * kGradWarps;
  if (thread >= kInputThreads)
    return GradLoader<T, kLoadersSumBias>(grad, tile, shared, thread - kInputThreads).run(false);
  const Fillers fillers{static_cast<int32_t>(threadIdx.x), 32 * kGradWarps + kInputThreads};
  fill_tables(grad, tile, kColumns, shared, fillers);
  fill_tap_steps(params, reinterpret_cast<int32_t*>(shared + params.layout.steps), fillers);
  const RowBiasSums<T, kTerms> row_sums(params, shared);
  if (row_sums.wanted()) row_sums.clear(fillers);
  sync_threads(kBackwardMultipliers, fillers.count);
  if (thread < 0) {
    if (sums) arrive_threads(kBiasTables, kGradThreads);
    if constexpr (RowBiasSums<T, kTerms>::kExist) {
      GradMultiplier<T, kTerms, backward_rows(kShape, kTerms), kColumns, RowBiasSums<T, kTerms>>(grad, shared, row_sums)
          .run();
      if (row_sums.wanted()) row_sums.store();
    } else {
      GradMultiplier<T, kTerms, backward_rows(kShape, kTerms), kColumns>(grad, shared).run();
    }
  } else {
    InputMultiplier<T, kTerms, kShape, kChannelRows, kWarpgroup>(params, shared, thread).run();
  }
}

template <typename T, int kTerms, Shape kShape, bool kChannelRows>
__global__ void __launch_bounds__(kBackwardThreads, 1)
    convt3d_mma_backward(const __grid_constant__ BackwardParams<T> params) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // elsewhere an empty body, which the plan never chooses
  compute_backward<T, kTerms, kShape, kChannelRows, false>(params);
#endif
}

}  // namespace convt3d::mma
