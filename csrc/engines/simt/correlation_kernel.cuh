// Forward and input gradient: a tile of (position, channel) of one phase a block.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "engines/simt/correlation_operands.cuh"
#include "engines/simt/epilogue.cuh"
#include "engines/simt/mainloop.cuh"

namespace convt3d {

template <typename T, TileShape kShape, bool kMasked>
__global__ void __launch_bounds__(Tile<kShape, Accumulator<T>>::kThreads,
                                  min_blocks(Operator::kForward, kShape, sizeof(T), kMasked))
    convt3d_correlation(const __grid_constant__ CorrelationParams<T> params) {
  using BlockTile = Tile<kShape, Accumulator<T>>;
  union Memory {
    typename BlockTile::Stage stages[2];
    OutputStage<BlockTile> output;
  };
  Memory& shared = static_shared_memory<Memory>();
  const typename BlockTile::Thread thread(threadIdx.x);
  const int64_t phases = static_cast<int64_t>(params.axis[0].phases) * params.axis[1].phases * params.axis[2].phases;

  // Neighbouring blocks are the phases of one tile of positions: they read the same source, and what they write
  // interleaves, so that the L2 joins their parts of a sector.
  for (int64_t tile = blockIdx.x; tile < params.tiles; tile += gridDim.x) {
    const Phase phase(params.axis, tile % phases);
    int64_t rest = tile / phases;
    const int first_n = static_cast<int>(rest % params.tiles_n) * BlockTile::kN;
    rest /= params.tiles_n;
    const int64_t group = rest % params.groups;
    const int64_t first_position = rest / params.groups * BlockTile::kM;

    const PositionGrid grid = phase.grid(params.batch);
    if (first_position >= grid.count()) continue;

    Fragment<BlockTile> c;
    {
      CorrelationOperands<BlockTile, T, kMasked> operands(params, phase, grid, first_position, group, first_n);
      mainloop<BlockTile>(operands, operands.k_tiles(), shared.stages, thread, c);
    }
    store_output<BlockTile>(params, phase, grid, first_position, group, first_n, thread, c, shared.output);
    __syncthreads();
  }
}

}  // namespace convt3d
