// Sums of a box whose K several blocks share (device/split_sum.cuh).
#pragma once

#include "device/ptx/thread_barrier.cuh"
#include "device/split_sum.cuh"
#include "engines/mma/correlation/mainloop.cuh"
#include "engines/mma/correlation/params.cuh"

namespace convt3d::mma {

constexpr int kMultipliers = 1;  // the barrier of the threads that multiply

// By the threads that multiply.
template <typename T, int kTerms, Shape kShape>
class SplitSum {
  static constexpr ShapeExtent kExtent = shape_extent(kShape, kTerms);
  static constexpr int kThreads = 32 * kExtent.warps();
  using Product = WarpProduct<T, kTerms, kExtent.warp_m, kExtent.warp_n>;
  using Sums = float[Product::kRows][Product::kColumns][4];
  static constexpr int kPieces = Product::kRows * Product::kColumns;
  static constexpr int kTile = kPieces * kThreads * 4;
  static_assert(kTile == kExtent.m() * kExtent.n());

 public:
  __device__ __forceinline__ SplitSum(const SplitParams& params, BlockShare& share) : params_(params), share_(share) {}

  // False: another block adds, and there is nothing to be stored.
  __device__ __forceinline__ bool operator()(int32_t box, Sums& sum) const {
    const auto thread = hopper::computed_here(static_cast<int32_t>(threadIdx.x));
    // Else the compiler keeps 64 bits of the box while the block multiplies.
    const int64_t tile = int64_t{hopper::computed_here(box)} * params_.shares + share_.number;
    float* const partial = params_.partial + tile * params_.splits * kTile + thread * 4;
    auto& pieces = reinterpret_cast<float (&)[kPieces][4]>(sum);
    leave_split<kThreads>(partial + int64_t{share_.split} * kTile, pieces);
    sync_threads(kMultipliers, kThreads);
    if (thread == 0) count_split(params_.counters, tile, params_.splits, share_.adds_splits);
    sync_threads(kMultipliers, kThreads);
    if (!share_.adds_splits) return false;
    add_splits<kThreads, sum_pieces(kExtent), sum_splits(kExtent)>(partial, params_.splits, pieces);
    return true;
  }

 private:
  const SplitParams& params_;
  BlockShare& share_;
};

}  // namespace convt3d::mma
