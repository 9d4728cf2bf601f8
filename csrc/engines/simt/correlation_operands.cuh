// The operands of forward and input gradient: A is the source gathered at (position, tap), B is the packed weight.
#pragma once

#include "core/phase_map.h"
#include "device/positions.cuh"
#include "device/source.cuh"
#include "engines/simt/tile.cuh"
#include "epilogue/epilogue.h"

namespace convt3d {

template <typename T>
struct CorrelationParams {
  AxisMap axis[3];
  int64_t batch;
  int64_t groups;
  int64_t tiles;  // all tiles of C: (tile_m, group, tile_n, phase), phase fastest
  int64_t tiles_n;
  int32_t k_channels;
  int32_t n_channels;
  int32_t k_padded;
  int32_t n_padded;
  Source<T> source;
  const T* weight;  // packed [group][tap][k_padded][n_padded]
  T* destination;
  Strides destination_stride;
  bool destination_channels_contiguous;
  bool destination_quads;  // channels are contiguous, and every quad of them is aligned and whole
  Epilogue epilogue;
};

// One phase of the three axes.
struct Phase {
  AxisPhase axis[3];

  __device__ __forceinline__ Phase(const AxisMap (&maps)[3], int64_t index) {
    axis[2] = axis_phase(maps[2], static_cast<int32_t>(index % maps[2].phases));
    index /= maps[2].phases;
    axis[1] = axis_phase(maps[1], static_cast<int32_t>(index % maps[1].phases));
    axis[0] = axis_phase(maps[0], static_cast<int32_t>(index / maps[1].phases));
  }
  __device__ __forceinline__ int taps() const { return axis[0].tap_count * axis[1].tap_count * axis[2].tap_count; }
  __device__ __forceinline__ PositionGrid grid(int64_t batch) const {
    return {batch,
            {static_cast<uint32_t>(axis[0].extent), static_cast<uint32_t>(axis[1].extent),
             static_cast<uint32_t>(axis[2].extent)}};
  }
};

// K runs over the taps of the phase and, inside each tap, over the channels in steps of Tile::kK.
template <typename Tile, typename T, bool kMasked>
class CorrelationOperands {
  using Acc = typename Tile::Acc;
  static constexpr int kPositions = Tile::kM > Tile::kThreads ? Tile::kM / Tile::kThreads : 1;
  static constexpr int kQuads = Tile::kM * Tile::kK / kQuad / Tile::kThreads / kPositions;    // of A, at each position
  static constexpr int kSharers = Tile::kThreads > Tile::kM ? Tile::kThreads / Tile::kM : 1;  // of one position
  static constexpr int kRowQuadsB = Tile::kN / kQuad;
  // A depth that no tap brings into the source, modulo 2^32: a size and the offsets beside it add up to less than 2^31.
  // A flag for each position would make some kernels spill.
  static constexpr int32_t kNowhere = INT32_MIN;
  static_assert(kPositions * kQuads * Tile::kThreads * kQuad == Tile::kM * Tile::kK, "threads cover A exactly");
  static_assert(kRowQuadsB * Tile::kK <= Tile::kThreads, "one quad of B a thread is enough");

 public:
  __device__ __forceinline__ CorrelationOperands(const CorrelationParams<T>& params, const Phase& phase,
                                                 const PositionGrid& grid, int64_t first_position, int64_t group,
                                                 int first_n)
      : params_(params), phase_(phase) {
    const int thread = static_cast<int>(threadIdx.x);
    if (params.source.quads) {
      // Threads that share a position side by side: together they read whole sectors of its channels.
      column_ = thread / kSharers;
      first_quad_ = thread % kSharers * kQuads;
    } else {
      column_ = thread % Tile::kM;
      first_quad_ = thread / Tile::kM * kQuads;
    }
    const Position base = grid.at(first_position);
#pragma unroll
    for (int p = 0; p < kPositions; ++p) {
      Position position = base;
      grid.advance(position, column_ + p * Tile::kThreads);
      const bool exists = position.n < params.batch;
      d_[p] = static_cast<int32_t>(position.d) * params.axis[0].src_step;
      h_[p] = static_cast<int32_t>(position.h) * params.axis[1].src_step;
      w_[p] = static_cast<int32_t>(position.w) * params.axis[2].src_step;
      offset_[p] = position.n * params.source.stride.n + params.source.stride.spatial(d_[p], h_[p], w_[p]) +
                   group * params.k_channels * params.source.stride.c;
      if constexpr (kMasked) {
        mask_offset_[p] = position.n * params.source.mask_stride.n +
                          params.source.mask_stride.spatial(d_[p], h_[p], w_[p]) +
                          group * params.k_channels * params.source.mask_stride.c;
      }
      if (!exists) d_[p] = kNowhere;
    }
    row_b_ = thread / kRowQuadsB;
    column_b_ = thread % kRowQuadsB * kQuad;
    const int64_t taps = static_cast<int64_t>(params.axis[0].taps) * params.axis[1].taps * params.axis[2].taps;
    weight_ = params.weight + (group * taps * params.k_padded + row_b_) * params.n_padded + first_n + column_b_;
    enter_tap();
  }

  __device__ __forceinline__ int k_tiles() const { return phase_.taps() * (params_.k_padded / Tile::kK); }

  __device__ __forceinline__ void fetch() {
#pragma unroll
    for (int p = 0; p < kPositions; ++p) {
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        const int channel = chunk_ + (first_quad_ + q) * kQuad;
        const int count = params_.k_channels - channel;
        if (inside_[p] && count > 0) {
          const int64_t mask_offset = kMasked ? mask_offset_[p] + mask_tap_offset_ : 0;
          a_[p][q] = load_channels<kMasked>(params_.source, offset_[p] + tap_offset_, mask_offset, channel, count);
        } else {
          a_[p][q] = zero_quad<T>();
        }
      }
    }
    if (row_b_ < Tile::kK) {
      b_ = load_quad_vector(weight_ + (static_cast<int64_t>(tap_) * params_.k_padded + chunk_) * params_.n_padded);
    }
  }

  __device__ __forceinline__ void store(typename Tile::Stage& stage) const {
#pragma unroll
    for (int p = 0; p < kPositions; ++p) {
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
#pragma unroll
        for (int i = 0; i < kQuad; ++i) {
          stage.a[(first_quad_ + q) * kQuad + i][column_ + p * Tile::kThreads] = to_accumulator(a_[p][q].value[i]);
        }
      }
    }
    if (row_b_ < Tile::kK) {
      Quad<Acc> b;
#pragma unroll
      for (int i = 0; i < kQuad; ++i) b.value[i] = to_accumulator(b_.value[i]);
      *reinterpret_cast<Quad<Acc>*>(&stage.b[row_b_][column_b_]) = b;
    }
  }

  __device__ __forceinline__ void advance() {
    chunk_ += Tile::kK;
    if (chunk_ < params_.k_padded) return;
    chunk_ = 0;
    if (++step_[2] == phase_.axis[2].tap_count) {
      step_[2] = 0;
      if (++step_[1] == phase_.axis[1].tap_count) {
        step_[1] = 0;
        ++step_[0];
      }
    }
    enter_tap();
  }

 private:
  __device__ __forceinline__ void enter_tap() {
    int offset[3];
    int tap[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      offset[i] = phase_.axis[i].first_offset + step_[i] * params_.axis[i].offset_step;
      tap[i] = phase_.axis[i].first_tap + step_[i] * params_.axis[i].tap_step;
    }
    tap_ = (tap[0] * params_.axis[1].taps + tap[1]) * params_.axis[2].taps + tap[2];
    tap_offset_ = params_.source.stride.spatial(offset[0], offset[1], offset[2]);
    if constexpr (kMasked) mask_tap_offset_ = params_.source.mask_stride.spatial(offset[0], offset[1], offset[2]);
#pragma unroll
    for (int p = 0; p < kPositions; ++p) {
      const auto depth = static_cast<int32_t>(static_cast<uint32_t>(d_[p]) + static_cast<uint32_t>(offset[0]));
      inside_[p] = params_.source.contains(depth, h_[p] + offset[1], w_[p] + offset[2]);
    }
  }

  const CorrelationParams<T>& params_;
  const Phase& phase_;
  // A: this thread's positions, and where the current tap finds them.
  int column_;
  int first_quad_;
  int32_t d_[kPositions], h_[kPositions], w_[kPositions];
  int64_t offset_[kPositions];
  int64_t mask_offset_[kMasked ? kPositions : 1];
  bool inside_[kPositions];
  int64_t tap_offset_;
  int64_t mask_tap_offset_;
  // B: this thread's quad of the weight.
  int row_b_;
  int column_b_;
  const T* weight_;
  // K: the current tap, as steps along each axis' taps, and the current channels.
  int step_[3] = {0, 0, 0};
  int tap_;
  int chunk_ = 0;

  Quad<T> a_[kPositions][kQuads];
  Quad<T> b_;
};

}  // namespace convt3d
