// Weight gradient: a block sums one tile of (tap and output channel, input channel) over one split of the positions;
// device/ordered_sum.cuh adds the splits.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "engines/simt/mainloop.cuh"
#include "engines/simt/weight_grad_operands.cuh"

namespace convt3d {

// K tiles summed in registers before they join the float64 partial sum in memory: 8192 positions, so that the two
// levels of the mainloop stay short, at the cost of one pass over C in a thousand.
constexpr int kSegmentTiles = 1024;

template <typename T, TileShape kShape, bool kMasked>
__global__ void __launch_bounds__(Tile<kShape, Accumulator<T>>::kThreads,
                                  min_blocks(Operator::kWeightGrad, kShape, sizeof(T), kMasked))
    convt3d_weight_grad(const __grid_constant__ WeightGradParams<T> params) {
  using BlockTile = Tile<kShape, Accumulator<T>>;
  auto& stages = static_shared_memory<typename BlockTile::Stage[2]>();
  const typename BlockTile::Thread thread(threadIdx.x);

  for (int64_t tile = blockIdx.x; tile < params.tiles; tile += gridDim.x) {
    const int64_t first_row = tile % params.tiles_m * BlockTile::kM;
    int64_t rest = tile / params.tiles_m;
    const int first_n = static_cast<int>(rest % params.tiles_n) * BlockTile::kN;
    rest /= params.tiles_n;
    const int64_t group = rest % params.groups;
    const int64_t split = rest / params.groups;
    const int64_t first_position = split * params.split_positions;
    const int64_t positions = min(params.split_positions, params.positions - first_position);

    double* partial = params.partial + (split * params.groups + group) * params.rows * params.n_channels;
    WeightGradOperands<BlockTile, T, kMasked> operands(params, first_row, first_n, group, first_position, positions);
    int64_t tiles_left = (positions + BlockTile::kK - 1) / BlockTile::kK;
    bool first_segment = true;
    while (tiles_left > 0) {
      const int segment = static_cast<int>(min(tiles_left, static_cast<int64_t>(kSegmentTiles)));
      Fragment<BlockTile> c;
      mainloop<BlockTile>(operands, segment, stages, thread, c);
#pragma unroll
      for (int i = 0; i < BlockTile::kTM; ++i) {
        const int64_t row = first_row + thread.m_of(i);
#pragma unroll
        for (int j = 0; j < BlockTile::kTN; ++j) {
          const int n = first_n + thread.n_of(j);
          if (row < params.rows && n < params.n_channels) {
            double* sum = partial + row * params.n_channels + n;
            *sum = (first_segment ? 0.0 : *sum) + c[i][j];
          }
        }
      }
      operands.advance();
      tiles_left -= segment;
      first_segment = false;
    }
  }
}

}  // namespace convt3d
