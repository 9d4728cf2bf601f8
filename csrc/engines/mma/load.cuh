// Fills a staged tile (tile.h) from a source: channels of neighbouring positions, zeros outside of the source and past
// the channels. All threads of the block call each function.
#pragma once

#include "device/matrix_element.cuh"
#include "device/ptx/async_copy.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/source.cuh"
#include "engines/mma/layouts.h"
#include "engines/mma/tile.h"

namespace convt3d::mma {

template <typename T>
struct TileParams {
  Source<T> source;
  StagedTile tile;
  LoadWay way;
  int64_t batch;
  bool rounds;  // float32 enters as TF32, rounded
};

// What a stage has.
struct TileStage {
  int32_t image;          // first
  int32_t unit[3];        // of each split axis, else 0
  int64_t first_channel;  // of the source
  int32_t channels;       // that exist from there on; the tile's rows may be longer or shorter
  uint32_t to;            // shared address
};

// Coordinates of the rows along each axis, negative outside of the source: [axis][unit][row].
__device__ __forceinline__ void fill_coordinates(const StagedTile& tile, const int32_t (&first)[3], int32_t* table) {
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    const TileAxis& axis = tile.axis[a];
    const int32_t rows = axis.rows();
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < rows; i += static_cast<int32_t>(blockDim.x)) {
      const int32_t unit = i / axis.length;
      const int64_t at = static_cast<int64_t>(first[a] + i % axis.length) * axis.step + axis.delta[unit];
      table[i] = at >= 0 && at < axis.source_size ? static_cast<int32_t>(at) : -1;
    }
    table += rows;
  }
}

// A row of a stage, and where it is in the source.
struct TileRow {
  int32_t image, d, h, w;  // coordinates
  int32_t row;             // of the tile
  bool exists;
};

template <typename T>
class TileLoader {
  static constexpr int kChannels = kPieceChannels<T>;
  using Piece = T[kChannels];

 public:
  __device__ __forceinline__ TileLoader(const TileParams<T>& params, const int32_t* coordinates)
      : params_(params), coordinates_(coordinates) {}

  // The copies are not committed; what threads store is in place.
  __device__ __forceinline__ void load(const TileStage& stage) const {
    switch (params_.way) {
      case LoadWay::kCopy:
        return copy(stage);
      case LoadWay::kPieces:
        return gather<true, true>(stage);
      case LoadWay::kChannels:
      case LoadWay::kWidth:
        return params_.source.mask == nullptr ? gather<false, false>(stage) : gather<false, true>(stage);
    }
  }

  // Rounds what this thread copied, which has arrived. Before a barrier.
  __device__ __forceinline__ void round_copied(const TileStage& stage) const {
    if constexpr (sizeof(T) == 4) {
      if (!params_.rounds || params_.way != LoadWay::kCopy) return;
      const int32_t count = items();
      for (int32_t item = static_cast<int32_t>(threadIdx.x); item < count; item += static_cast<int32_t>(blockDim.x)) {
        int32_t piece;
        const TileRow row = row_of(stage, item, piece, false);
        const uint32_t address = stage.to + row.row * params_.tile.pitch + piece * kPieceBytes;
        const uint4 bits = hopper::load_shared<uint4>(address);
        T values[kChannels];
        *reinterpret_cast<uint4*>(values) = bits;
        hopper::store_shared(address, to_matrix_piece(values), true);
      }
    }
  }

 private:
  __device__ __forceinline__ int32_t items() const { return params_.tile.staged_rows() * params_.tile.pieces; }

  // `along_width`: neighbouring items are neighbours along the width, else pieces of a row.
  __device__ __forceinline__ TileRow row_of(const TileStage& stage, int32_t item, int32_t& piece,
                                            bool along_width) const {
    const StagedTile& tile = params_.tile;
    if (!along_width) piece = tile.pieces_of_row.take(item);
    const int32_t w = tile.staged[2].take(item);
    const int32_t h = tile.staged[1].take(item);
    const int32_t d = tile.staged[0].take(item);
    int32_t image = item;
    if (along_width) {
      piece = item / tile.images;
      image = item - piece * tile.images;
    }
    const int32_t rows_d = tile.axis[0].rows();
    const int32_t rows_h = tile.axis[1].rows();
    TileRow row;
    row.image = stage.image + image;
    row.d = coordinates_[stage.unit[0] * tile.axis[0].length + d];
    row.h = coordinates_[rows_d + stage.unit[1] * tile.axis[1].length + h];
    row.w = coordinates_[rows_d + rows_h + stage.unit[2] * tile.axis[2].length + w];
    row.row = image * tile.stride[0] + d * tile.stride[1] + h * tile.stride[2] + w;
    row.exists = (row.d | row.h | row.w) >= 0 && row.image < params_.batch;
    return row;
  }

  __device__ __forceinline__ void copy(const TileStage& stage) const {
    const int32_t count = items();
    const T* const data = params_.source.data + stage.first_channel;
    for (int32_t item = static_cast<int32_t>(threadIdx.x); item < count; item += static_cast<int32_t>(blockDim.x)) {
      int32_t piece;
      const TileRow row = row_of(stage, item, piece, false);
      const bool exists = row.exists && piece * kChannels < stage.channels;
      const T* const from = data + offset_of(params_.source.stride, row) + piece * kChannels;
      async_copy<kPieceBytes>(stage.to + row.row * params_.tile.pitch + piece * kPieceBytes,
                              exists ? from : params_.source.data, exists ? kPieceBytes : 0);
    }
  }

  template <bool kPieces, bool kMasked>
  __device__ __forceinline__ void gather(const TileStage& stage) const {
    constexpr int kInFlight = kMasked ? 1 : 2;  // pieces
    const bool along_width = !kPieces && params_.way == LoadWay::kWidth;
    const int32_t count = items();
    const auto step = static_cast<int32_t>(blockDim.x);
    for (int32_t first = static_cast<int32_t>(threadIdx.x); first < count; first += kInFlight * step) {
      alignas(16) T values[kInFlight][kChannels];
      alignas(16) T masks[kMasked ? kInFlight : 1][kChannels];
      uint32_t to[kInFlight];
      int32_t left[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int32_t item = first + i * step;
        int32_t piece = 0;
        const TileRow row = row_of(stage, item < count ? item : 0, piece, along_width);
        to[i] = stage.to + row.row * params_.tile.pitch + piece * kPieceBytes;
        left[i] = row.exists ? stage.channels - piece * kChannels : 0;
        const int64_t channel = stage.first_channel + piece * kChannels;
        read<kPieces>(params_.source.data, params_.source.stride, row, channel, left[i], values[i]);
        if constexpr (kMasked)
          read<kPieces>(params_.source.mask, params_.source.mask_stride, row, channel, left[i], masks[i]);
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if constexpr (kMasked) {
#pragma unroll
          for (int c = 0; c < kChannels; ++c) {
            // As PyTorch's threshold_backward: a NaN in the output lets the gradient through.
            if (to_accumulator(masks[i][c]) <= 0) values[i][c] = from_accumulator<T>(Accumulator<T>(0));
          }
        }
        uint4 piece = *reinterpret_cast<const uint4*>(values[i]);
        if constexpr (sizeof(T) == 4) {
          if (params_.rounds) piece = to_matrix_piece(values[i]);
        }
        hopper::store_shared(to[i], piece, first + i * step < count);
      }
    }
  }

  // A piece; zeros past `left` channels.
  template <bool kPieces>
  __device__ __forceinline__ void read(const T* data, const Strides& stride, const TileRow& row, int64_t channel,
                                       int32_t left, Piece& values) const {
    *reinterpret_cast<uint4*>(values) = uint4{0, 0, 0, 0};
    const T* const from = data + offset_of(stride, row) + channel * stride.c;
    if constexpr (kPieces) {
      if (left > 0) *reinterpret_cast<uint4*>(values) = __ldg(reinterpret_cast<const uint4*>(from));
    } else {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        if (c < left) values[c] = __ldg(from + c * stride.c);
      }
    }
  }

  // Of channel 0.
  __device__ __forceinline__ static int64_t offset_of(const Strides& stride, const TileRow& row) {
    return static_cast<int64_t>(row.image) * stride.n + stride.spatial(row.d, row.h, row.w);
  }

  const TileParams<T>& params_;
  const int32_t* coordinates_;
};

}  // namespace convt3d::mma
