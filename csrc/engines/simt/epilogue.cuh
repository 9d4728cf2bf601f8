// From the accumulators to memory: the epilogue, and stores along whichever axis is contiguous.
#pragma once

#include "engines/simt/correlation_operands.cuh"
#include "engines/simt/mainloop.cuh"
#include "epilogue/apply.cuh"

namespace convt3d {

// Shared memory of the epilogue, over the mainloop's stages.
template <typename Tile>
struct OutputStage {
  static constexpr int kRows = Tile::kN / Tile::kTN;
  int64_t offset[Tile::kM];  // of the destination at each position; negative: there is none
  // One register column of every thread. Rows start 8 banks apart: the four rows that a quarter of a warp writes do not
  // collide.
  typename Tile::Acc row[kRows][Tile::kM + 2 * kQuad];
};

// Channels contiguous: each thread holds a quad of channels at each of its positions.
template <typename Tile, typename T>
__device__ __forceinline__ void store_channels(const CorrelationParams<T>& params, int64_t first_channel, int n_left,
                                               const typename Tile::Thread& thread, const Fragment<Tile>& c,
                                               const OutputStage<Tile>& stage) {
#pragma unroll
  for (int i = 0; i < Tile::kTM; ++i) {
    const int64_t offset = stage.offset[thread.m_of(i)];
    if (offset < 0) continue;
#pragma unroll
    for (int j = 0; j < Tile::kTN; j += kQuad) {
      const int n = thread.n_of(j);
      if (n >= n_left) continue;
      Quad<T> quad;
#pragma unroll
      for (int k = 0; k < kQuad; ++k) {
        if (n + k < n_left) quad.value[k] = finished<T>(params.epilogue, c[i][j + k], first_channel + n + k);
      }
      T* destination = params.destination + offset + (first_channel + n) * params.destination_stride.c;
      if (params.destination_quads) {
        store_quad_vector(destination, quad);
      } else {
#pragma unroll
        for (int k = 0; k < kQuad; ++k) {
          if (n + k < n_left) destination[k * params.destination_stride.c] = quad.value[k];
        }
      }
    }
  }
}

// Positions contiguous: register columns go through shared memory, so that a warp stores neighbouring positions.
template <typename Tile, typename T>
__device__ __forceinline__ void store_positions(const CorrelationParams<T>& params, int64_t first_channel, int n_left,
                                                const typename Tile::Thread& thread, const Fragment<Tile>& c,
                                                OutputStage<Tile>& stage) {
  using Acc = typename Tile::Acc;
  constexpr int kRows = OutputStage<Tile>::kRows;
  const int own_row = thread.n / Tile::kWarpN * Tile::kLanesN + thread.n % Tile::kWarpN / kQuad;
#pragma unroll
  for (int j = 0; j < Tile::kTN; ++j) {
#pragma unroll
    for (int i = 0; i < Tile::kTM; i += kQuad) {
      Quad<Acc> quad;
#pragma unroll
      for (int k = 0; k < kQuad; ++k) quad.value[k] = c[i + k][j];
      *reinterpret_cast<Quad<Acc>*>(&stage.row[own_row][thread.m_of(i)]) = quad;
    }
    __syncthreads();
    for (int item = static_cast<int>(threadIdx.x); item < kRows * Tile::kM; item += Tile::kThreads) {
      const int m = item % Tile::kM;
      const int row = item / Tile::kM;
      // The N that register column j of row's owner stands for (Tile::Thread::n_of).
      const int n = row / Tile::kLanesN * Tile::kWarpN + j / kQuad * (Tile::kLanesN * kQuad) +
                    row % Tile::kLanesN * kQuad + j % kQuad;
      const int64_t offset = stage.offset[m];
      if (offset < 0 || n >= n_left) continue;
      const int64_t channel = first_channel + n;
      params.destination[offset + channel * params.destination_stride.c] =
          finished<T>(params.epilogue, stage.row[row][m], channel);
    }
    __syncthreads();
  }
}

template <typename Tile, typename T>
__device__ __forceinline__ void store_output(const CorrelationParams<T>& params, const Phase& phase,
                                             const PositionGrid& grid, int64_t first_position, int64_t group,
                                             int first_n, const typename Tile::Thread& thread, const Fragment<Tile>& c,
                                             OutputStage<Tile>& stage) {
  const Position base = grid.at(first_position);
  for (int m = static_cast<int>(threadIdx.x); m < Tile::kM; m += Tile::kThreads) {
    Position position = base;
    grid.advance(position, m);
    const Strides& stride = params.destination_stride;
    stage.offset[m] =
        position.n < params.batch
            ? position.n * stride.n +
                  stride.spatial(static_cast<int64_t>(position.d) * params.axis[0].dst_step + phase.axis[0].residue,
                                 static_cast<int64_t>(position.h) * params.axis[1].dst_step + phase.axis[1].residue,
                                 static_cast<int64_t>(position.w) * params.axis[2].dst_step + phase.axis[2].residue)
            : -1;
  }
  __syncthreads();
  const int64_t first_channel = group * params.n_channels + first_n;
  const int n_left = params.n_channels - first_n;
  if (params.destination_channels_contiguous) {
    store_channels<Tile>(params, first_channel, n_left, thread, c, stage);
  } else {
    store_positions<Tile>(params, first_channel, n_left, thread, c, stage);
  }
}

}  // namespace convt3d
