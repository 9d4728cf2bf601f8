// Weight gradient: a block sums one tile of (tap and output channel, input channel) over one split of the positions; a
// second kernel adds the splits in order.
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

template <typename T>
struct WeightReduceParams {
  const double* partial;  // [split][group][row][n_channels]
  int64_t splits;
  int64_t split_stride;  // group*row*n_channels
  int64_t rows;
  int32_t row_channels;
  int32_t row_padded;
  int32_t n_channels;
  int32_t kernel[3];
  T* grad_weight;
  Strides stride;  // n: input channel, c: output channel of the group, d h w: tap
};

template <typename T>
__global__ void convt3d_weight_reduce(const __grid_constant__ WeightReduceParams<T> params) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; index < params.split_stride;
       index += step) {
    const int64_t n = index % params.n_channels;
    int64_t rest = index / params.n_channels;
    const int64_t row = rest % params.rows;
    const int64_t group = rest / params.rows;
    const int64_t channel = row % params.row_padded;
    if (channel >= params.row_channels) continue;
    double sum = 0;
#pragma unroll 4
    for (int64_t split = 0; split < params.splits; ++split) sum += params.partial[split * params.split_stride + index];
    int64_t tap = row / params.row_padded;
    const int64_t w = tap % params.kernel[2];
    tap /= params.kernel[2];
    const int64_t h = tap % params.kernel[1];
    const int64_t d = tap / params.kernel[1];
    params.grad_weight[(group * params.n_channels + n) * params.stride.n + channel * params.stride.c +
                       params.stride.spatial(d, h, w)] = from_accumulator<T>(sum);
  }
}

}  // namespace convt3d
