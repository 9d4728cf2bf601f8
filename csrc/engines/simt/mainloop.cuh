// C[M][N] += sum over K of A[K][M] * B[K][N], through two stages of shared memory, for any pair of operands.
//
// An Operands type brings the tiles of A and B: fetch() starts the global loads of the current K tile into registers,
// store() rounds nothing and writes them to a stage, advance() steps to the next K tile. All threads of the block call
// each.
#pragma once

#include "engines/simt/tile.cuh"

namespace convt3d {

// K tiles whose products are summed in one register before they join the total: 64 terms. The rounding error of a float
// sum grows with the square root of its terms; two short sums keep it near 2e-7 where one long one of 2400 terms
// reaches 9e-7.
constexpr int kPartialTiles = 8;

template <typename Tile>
using Fragment = typename Tile::Acc[Tile::kTM][Tile::kTN];

template <typename Tile>
__device__ __forceinline__ void clear(Fragment<Tile>& c) {
#pragma unroll
  for (int i = 0; i < Tile::kTM; ++i) {
#pragma unroll
    for (int j = 0; j < Tile::kTN; ++j) c[i][j] = 0;
  }
}

template <typename Tile>
__device__ __forceinline__ void multiply(const typename Tile::Stage& stage, const typename Tile::Thread& thread,
                                         Fragment<Tile>& c) {
  using Acc = typename Tile::Acc;
#pragma unroll Tile::kUnrolledK
  for (int k = 0; k < Tile::kK; ++k) {
    Quad<Acc> a[Tile::kTM / kQuad];
    Quad<Acc> b[Tile::kTN / kQuad];
#pragma unroll
    for (int i = 0; i < Tile::kTM / kQuad; ++i) {
      a[i] = *reinterpret_cast<const Quad<Acc>*>(&stage.a[k][thread.m_of(i * kQuad)]);
    }
#pragma unroll
    for (int j = 0; j < Tile::kTN / kQuad; ++j) {
      b[j] = *reinterpret_cast<const Quad<Acc>*>(&stage.b[k][thread.n_of(j * kQuad)]);
    }
#pragma unroll
    for (int i = 0; i < Tile::kTM; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kTN; ++j) {
        c[i][j] = fma(a[i / kQuad].value[i % kQuad], b[j / kQuad].value[j % kQuad], c[i][j]);
      }
    }
  }
}

// Leaves the block synchronized: the stages may be reused at once. `k_tiles` is the same in every thread.
template <typename Tile, typename Operands>
__device__ __forceinline__ void mainloop(Operands& operands, int k_tiles, typename Tile::Stage (&stages)[2],
                                         const typename Tile::Thread& thread, Fragment<Tile>& total) {
  constexpr bool kTwoLevels = sizeof(typename Tile::Acc) == 4;
  clear<Tile>(total);
  if (k_tiles == 0) return;
  operands.fetch();
  operands.store(stages[0]);
  __syncthreads();
  Fragment<Tile> partial;
  clear<Tile>(partial);
  for (int tile = 0; tile < k_tiles; ++tile) {
    const bool more = tile + 1 < k_tiles;
    if (more) {
      operands.advance();
      operands.fetch();
    }
    if constexpr (kTwoLevels) {
      multiply<Tile>(stages[tile % 2], thread, partial);
      if (tile % kPartialTiles == kPartialTiles - 1 || !more) {
#pragma unroll
        for (int i = 0; i < Tile::kTM; ++i) {
#pragma unroll
          for (int j = 0; j < Tile::kTN; ++j) total[i][j] += partial[i][j];
        }
        clear<Tile>(partial);
      }
    } else {
      multiply<Tile>(stages[tile % 2], thread, total);
    }
    if (more) operands.store(stages[(tile + 1) % 2]);
    __syncthreads();
  }
}

}  // namespace convt3d
