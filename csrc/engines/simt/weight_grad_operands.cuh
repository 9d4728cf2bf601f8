// The operands of the weight gradient: A is grad_output gathered at (tap, output channel) x position, B is the input at
// the position. K runs over positions.
#pragma once

#include "core/phase_map.h"
#include "device/positions.cuh"
#include "device/source.cuh"
#include "engines/simt/tile.cuh"

namespace convt3d {

template <typename T>
struct WeightGradParams {
  AxisMap axis[3];  // the input gradient's
  PositionGrid grid;
  int64_t groups;
  int64_t tiles;  // (split, group, tile_n, tile_m), tile_m fastest
  int64_t tiles_m;
  int64_t tiles_n;
  int64_t rows;  // taps * row_padded
  int64_t positions;
  int64_t split_positions;
  int32_t row_channels;
  int32_t row_padded;
  int32_t n_channels;
  Source<T> grad_output;
  Source<T> input;
  double* partial;  // [split][group][row][n_channels]
};

template <typename Tile, typename T, bool kMasked>
class WeightGradOperands {
  using Acc = typename Tile::Acc;
  // A thread keeps one K row, and with it one position at a time, for several quads of M. Eight rows side by side in a
  // warp read 8 neighbouring positions (a 32-byte sector of float) and store without a bank conflict.
  static constexpr int kThreadsPerRow = Tile::kThreads / Tile::kK;
  static constexpr int kQuadsA = Tile::kM / kQuad / kThreadsPerRow;
  static_assert(kQuadsA * kThreadsPerRow * kQuad == Tile::kM, "threads cover A exactly");
  static_assert(Tile::kN / kQuad <= kThreadsPerRow, "one quad of B a thread is enough");

 public:
  __device__ __forceinline__ WeightGradOperands(const WeightGradParams<T>& params, int64_t first_row, int first_n,
                                                int64_t group, int64_t first_position, int64_t positions)
      : params_(params) {
    const int thread = static_cast<int>(threadIdx.x);
    k_row_ = thread % Tile::kK;
    quad_ = thread / Tile::kK;
    left_ = positions - k_row_;
    position_ = params.grid.at(first_position);
    params.grid.advance(position_, k_row_);
#pragma unroll
    for (int q = 0; q < kQuadsA; ++q) {
      const int64_t row = first_row + (quad_ + q * kThreadsPerRow) * kQuad;
      int tap = static_cast<int>(row / params.row_padded);
      const int channel = static_cast<int>(row % params.row_padded);
      count_[q] = row < params.rows ? params.row_channels - channel : 0;
      w_[q] = tap_offset(2, tap % params.axis[2].taps);
      tap /= params.axis[2].taps;
      h_[q] = tap_offset(1, tap % params.axis[1].taps);
      d_[q] = tap_offset(0, tap / params.axis[1].taps);
      const int64_t source_channel = group * params.row_channels + channel;
      offset_[q] =
          params.grad_output.stride.spatial(d_[q], h_[q], w_[q]) + source_channel * params.grad_output.stride.c;
      if constexpr (kMasked) {
        mask_offset_[q] = params.grad_output.mask_stride.spatial(d_[q], h_[q], w_[q]) +
                          source_channel * params.grad_output.mask_stride.c;
      }
    }
    const int n = first_n + quad_ * kQuad;
    count_b_ = quad_ < Tile::kN / kQuad ? params.n_channels - n : 0;
    offset_b_ = (group * params.n_channels + n) * params.input.stride.c;
  }

  __device__ __forceinline__ void fetch() {
    const bool exists = left_ > 0;
    const int32_t d = static_cast<int32_t>(position_.d) * params_.axis[0].src_step;
    const int32_t h = static_cast<int32_t>(position_.h) * params_.axis[1].src_step;
    const int32_t w = static_cast<int32_t>(position_.w) * params_.axis[2].src_step;
    const Source<T>& source = params_.grad_output;
    const int64_t base = position_.n * source.stride.n + source.stride.spatial(d, h, w);
    const int64_t mask_base = kMasked ? position_.n * source.mask_stride.n + source.mask_stride.spatial(d, h, w) : 0;
#pragma unroll
    for (int q = 0; q < kQuadsA; ++q) {
      if (exists && count_[q] > 0 && source.contains(d + d_[q], h + h_[q], w + w_[q])) {
        const int64_t mask_offset = kMasked ? mask_base + mask_offset_[q] : 0;
        a_[q] = load_channels<kMasked>(source, base + offset_[q], mask_offset, 0, count_[q]);
      } else {
        a_[q] = zero_quad<T>();
      }
    }
    if (exists && count_b_ > 0) {
      const int64_t offset = position_.n * params_.input.stride.n +
                             params_.input.stride.spatial(position_.d, position_.h, position_.w) + offset_b_;
      b_ = load_channels<false>(params_.input, offset, 0, 0, count_b_);
    } else {
      b_ = zero_quad<T>();
    }
  }

  __device__ __forceinline__ void store(typename Tile::Stage& stage) const {
#pragma unroll
    for (int q = 0; q < kQuadsA; ++q) {
      *reinterpret_cast<Quad<Acc>*>(&stage.a[k_row_][(quad_ + q * kThreadsPerRow) * kQuad]) = widen(a_[q]);
    }
    if (quad_ < Tile::kN / kQuad) *reinterpret_cast<Quad<Acc>*>(&stage.b[k_row_][quad_ * kQuad]) = widen(b_);
  }

  __device__ __forceinline__ void advance() {
    left_ -= Tile::kK;
    params_.grid.advance(position_, Tile::kK);
  }

 private:
  __device__ __forceinline__ int32_t tap_offset(int axis, int32_t tap) const {
    const AxisMap& map = params_.axis[axis];
    return tap * map.offset_step + map.padding;  // axis_phase(map, 0).first_offset is the (negated) padding
  }
  static __device__ __forceinline__ Quad<Acc> widen(const Quad<T>& quad) {
    Quad<Acc> wide;
#pragma unroll
    for (int i = 0; i < kQuad; ++i) wide.value[i] = to_accumulator(quad.value[i]);
    return wide;
  }

  const WeightGradParams<T>& params_;
  int k_row_;
  int quad_;
  int64_t left_;  // positions of the split from this thread's on
  Position position_;
  int32_t d_[kQuadsA], h_[kQuadsA], w_[kQuadsA];  // offsets of each quad's tap
  int64_t offset_[kQuadsA];
  int64_t mask_offset_[kMasked ? kQuadsA : 1];
  int32_t count_[kQuadsA];  // channels of each quad
  int64_t offset_b_;
  int32_t count_b_;

  Quad<T> a_[kQuadsA];
  Quad<T> b_;
};

}  // namespace convt3d
