// The input gradient's product where Hopper's tensor cores compute it: four warps of a warpgroup, each with rows of its
// own in registers, and the weight in shared memory. A warp alone on its scheduler issues an instruction every few
// clocks; here a step has one for each 16 rows of a warp, where mma.sync has one for every 8 columns of them.
#pragma once

#include "device/hopper.cuh"
#include "device/ptx/wgmma.cuh"
#include "engines/mma/backward/plan.h"
#include "engines/mma/correlation/mainloop.cuh"

namespace convt3d::mma {

// As WarpProduct, of one term in TF32. A step's weight is [half of its 32 bytes of K][channel][16 bytes].
template <Shape kShape, bool kChannelRows>
class WarpgroupProduct {
  static constexpr ShapeExtent kExtent = shape_extent(kShape, 1);
  static_assert(kExtent.warps() == 4 && kExtent.warps_n == 1);
  static constexpr int kWarpN = kExtent.warp_n;
  static constexpr int kTogether = steps_together(kShape);
  using Rows = WarpProduct<float, 1, kExtent.warp_m, kWarpN, kChannelRows>;

 public:
  static constexpr int kRows = Rows::kRows;
  static constexpr int kColumns = Rows::kColumns;
  static constexpr int kNamed = Rows::kNamed;
  static constexpr int kLaneBytes = 0;  // a lane reads no weight
  using Named = typename Rows::Named;

  float sum[kRows][kColumns][4];

  __device__ __forceinline__ WarpgroupProduct(const uint32_t (&rows)[kNamed], uint32_t, uint32_t step_bytes,
                                              uint32_t channel_bytes)
      : step_bytes_(step_bytes), channel_bytes_(channel_bytes) {
#pragma unroll
    for (int i = 0; i < kNamed; ++i) rows_[i] = rows[i];
  }
  __device__ __forceinline__ static Named name_row(int i, int32_t lane, uint32_t channel_bytes) {
    return Rows::name_row(i, lane, channel_bytes);
  }

  __device__ __forceinline__ void clear() { Rows::clear(sum); }

  // As WarpProduct::add(), by all warps of the warpgroup. Steps are taken by steps_at_once(): the last ones may be past
  // `count`, where the weight is zero, and of the table kFurtherSteps numbers past the last one are read. The sums are
  // there when it returns.
  __device__ __forceinline__ void add(uint32_t table, int32_t count, uint32_t tile, uint32_t weight) {
    Factors a[2];
    hopper::MatrixDescriptor b = hopper::matrix_descriptor(weight, kWarpN * kPieceBytes, 8 * kPieceBytes);
    const auto multiply = [&](const Factors& now) {
      hopper::wgmma_fence();
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) Product::multiply(sums(i), now.of[k][i], b.bits());
        b = b + step_bytes_ / 16;
      }
      hopper::wgmma_commit();
    };
    read(a[0], table, tile);
    int32_t step = 0;
    // What steps multiply stays in registers until that is done; the next ones are on their way meanwhile. The loop has
    // one way out: the compiler would wait for each product otherwise.
#pragma unroll 1
    do {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        multiply(a[half]);
        table += 4 * kTogether;
        read(a[1 - half], table, tile);
        hopper::wgmma_wait<0>();
      }
      step += steps_at_once(kShape);
    } while (step < count);
#pragma unroll
    for (int i = 0; i < kRows; ++i) fence(sums(i));
  }

 private:
  using Product = hopper::WgmmaOfRegisters<kWarpN>;
  using Sums = float[kWarpN / 2];
  struct Factors {
    uint32_t of[kTogether][kRows][4];
  };

  __device__ __forceinline__ Sums& sums(int i) { return reinterpret_cast<Sums&>(sum[i]); }
  // The sums of products in the background are read no earlier.
  __device__ __forceinline__ static void fence(Sums& c) {
#pragma unroll
    for (int k = 0; k < kWarpN / 2; ++k) hopper::fence_register(c[k]);
  }
  __device__ __forceinline__ void read(Factors& a, uint32_t table, uint32_t tile) const {
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const uint32_t from = tile + Rows::entry(table, k);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        Rows::read_fragment(a.of[k][i], rows_, i, from, channel_bytes_);
        Rows::round(a.of[k][i]);
      }
    }
  }

  uint32_t rows_[kNamed];
  uint32_t step_bytes_;
  uint32_t channel_bytes_;
};

}  // namespace convt3d::mma
