// The tile of C that a block computes: how its M x N x K splits over warps, lanes and registers.
//
// A lane owns TM x TN elements of C as quads: quad i of M starts at warp_m*kWarpM + i*(kLanesM*4) + lane_m*4, so that
// the lanes of a warp read neighbouring quads of shared memory without a bank conflict.
#pragma once

#include "device/numeric.cuh"
#include "engines/simt/plan.h"

namespace convt3d {

// Whether the widest tile of forward and input gradient fits 128 registers, which depends on what ptxas makes of the
// architecture.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 860 && __CUDA_ARCH__ != 890 && __CUDA_ARCH__ != 900
constexpr bool kWideFitsTwice = false;
#else
constexpr bool kWideFitsTwice = true;
#endif

// Steps of K whose loads of the narrow tile may overlap: with all 8 the masked weight gradient spills there.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 1000
constexpr int kNarrowSteps = 4;
#else
constexpr int kNarrowSteps = 8;
#endif

// Blocks that must fit an SM, for __launch_bounds__: as many as leave every kernel the registers it needs.
constexpr int min_blocks(Operator op, TileShape shape, size_t element_bytes, bool masked) {
  if (element_bytes == 8) return 1;
  switch (shape) {
    case TileShape::kNarrow:
      return 2;
    case TileShape::kSlim:
      return 2;
    case TileShape::kMedium:
      return op != Operator::kWeightGrad && masked ? 2 : 3;
    case TileShape::kWide:
      return op == Operator::kWeightGrad || !kWideFitsTwice ? 1 : 2;
  }
  return 1;
}

template <TileShape kShape, typename Acc_>
struct Tile {
  using Acc = Acc_;
  static constexpr TileExtent kExtent = tile_extent(kShape, sizeof(Acc) == 8);
  static constexpr int kM = kExtent.m;
  static constexpr int kN = kExtent.n;
  static constexpr int kK = kExtent.k;

  static constexpr int kTM = kShape == TileShape::kNarrow ? 4 : 8;  // C elements of a thread along M
  static constexpr int kTN = kShape == TileShape::kNarrow && sizeof(Acc) == 4 ? 8 : 4;  // C elements of it along N
  static constexpr int kUnrolledK = kShape == TileShape::kNarrow ? kNarrowSteps : kK;
  static constexpr int kThreads = (kM / kTM) * (kN / kTN);
  static constexpr int kLanesN = kN / kTN < 4 ? kN / kTN : 4;  // lanes of a warp along N
  static constexpr int kLanesM = 32 / kLanesN;
  static constexpr int kWarpM = kLanesM * kTM;  // a warp's part of the tile
  static constexpr int kWarpN = kLanesN * kTN;
  static constexpr int kWarpsN = kN / kWarpN;

  static_assert(kM % kWarpM == 0 && kN % kWarpN == 0, "warps cover the tile exactly");
  static_assert(kM % 32 == 0, "rows of the A tile start 4 banks apart, which the stores of a transposed quad rely on");

  // A[K][M] and B[K][N]; a row ends in one quad of padding, so that rows start 4 banks apart.
  struct Stage {
    Acc a[kK][kM + kQuad];
    Acc b[kK][kN + kQuad];
  };

  struct Thread {
    int m;  // first M of this thread's quad 0 in the tile
    int n;
    __device__ __forceinline__ explicit Thread(int thread) {
      const int warp = thread / 32;
      const int lane = thread % 32;
      m = (warp / kWarpsN) * kWarpM + (lane / kLanesN) * kQuad;
      n = (warp % kWarpsN) * kWarpN + (lane % kLanesN) * kQuad;
    }
    // M and N, in the tile, of register row i and register column j.
    __device__ __forceinline__ int m_of(int i) const { return m + (i / kQuad) * (kLanesM * kQuad) + i % kQuad; }
    __device__ __forceinline__ int n_of(int j) const { return n + (j / kQuad) * (kLanesN * kQuad) + j % kQuad; }
  };
};

}  // namespace convt3d
