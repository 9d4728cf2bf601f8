// Sums of a box whose K several blocks share. Each leaves what it has summed in memory, for itself, and counts itself;
// the last one adds all of them, in order, and stores the sum: who is last changes no bit.
#pragma once

#include "device/overlap.cuh"
#include "device/ptx/global_memory.cuh"
#include "device/ptx/thread_barrier.cuh"
#include "engines/mma/correlation/mainloop.cuh"
#include "engines/mma/correlation/params.cuh"

namespace convt3d::mma {

constexpr int kMultipliers = 1;  // the barrier of the threads that multiply

// By the threads that multiply. Each has the same elements of a tile in all splits, whatever these are: it writes and
// reads them by 16 bytes beside those of its neighbours.
template <typename T, int kTerms, Shape kShape>
class SplitSum {
  static constexpr ShapeExtent kExtent = shape_extent(kShape, kTerms);
  static constexpr int kThreads = 32 * kExtent.warps();
  using Product = WarpProduct<T, kTerms, kExtent.warp_m, kExtent.warp_n>;
  using Sums = float[Product::kRows][Product::kColumns][4];
  static constexpr int kPieces = Product::kRows * Product::kColumns;
  static constexpr int kTile = kPieces * kThreads * 4;
  static constexpr int kAtOnce = sum_pieces(kExtent);
  static constexpr int kSplitsAtOnce = sum_splits(kExtent);
  static_assert(kTile == kExtent.m() * kExtent.n() && kPieces % kAtOnce == 0);

 public:
  __device__ __forceinline__ SplitSum(const SplitParams& params, BlockShare& share) : params_(params), share_(share) {}

  // False: another block adds, and there is nothing to be stored.
  __device__ __forceinline__ bool operator()(int32_t box, Sums& sum) const {
    const auto thread = hopper::computed_here(static_cast<int32_t>(threadIdx.x));
    // Else the compiler keeps 64 bits of the box while the block multiplies.
    const int64_t tile = int64_t{hopper::computed_here(box)} * params_.shares + share_.number;
    float* const partial = params_.partial + tile * params_.splits * kTile + thread * 4;
    float* const own = partial + int64_t{share_.split} * kTile;
#pragma unroll
    for (int k = 0; k < kPieces; ++k) {
      hopper::store_global(own + k * kThreads * 4, sum[k / Product::kColumns][k % Product::kColumns]);
    }
    sync_threads(kMultipliers, kThreads);
    if (thread == 0) {
      wait_for_kernel_before();  // which begins the counters
      __threadfence();
      share_.adds_splits = atomicAdd(params_.counters + tile, 1u) == static_cast<uint32_t>(params_.splits - 1);
      __threadfence();
    }
    sync_threads(kMultipliers, kThreads);
    if (!share_.adds_splits) return false;
    add_all(partial, sum);
    return true;
  }

 private:
  __device__ __forceinline__ void add_all(const float* partial, Sums& sum) const {
#pragma unroll
    for (int first = 0; first < kPieces; first += kAtOnce) {
#pragma unroll
      for (int k = first; k < first + kAtOnce; ++k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[k / Product::kColumns][k % Product::kColumns][i] = 0;
      }
      const float* from = partial + first * kThreads * 4;
#pragma unroll kSplitsAtOnce
      for (int32_t split = 0; split < params_.splits; ++split) {
        float values[kAtOnce][4];
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) hopper::load_global(values[k], from + k * kThreads * 4);
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            sum[(first + k) / Product::kColumns][(first + k) % Product::kColumns][i] += values[k][i];
          }
        }
        from += kTile;
      }
    }
  }

  const SplitParams& params_;
  BlockShare& share_;
};

}  // namespace convt3d::mma
