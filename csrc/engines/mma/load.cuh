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
  int32_t first_w;        // position u of the block along the width
  int32_t unit[3];        // of each split axis, else 0
  int64_t first_channel;  // of the source
  int32_t channels;       // that exist from there on; the tile's rows may be longer or shorter
  uint32_t to;            // shared address
};

// The first coordinate of the pairs along the width, of a block whose first position is u.
__device__ __forceinline__ int32_t first_of_pairs(const StagedTile& tile, int32_t u) {
  return (u * tile.axis[2].step + tile.width_least) & ~1;
}

// Coordinates of the rows along each axis, negative outside of the source: [axis][unit][row]. Then the rows of a stage
// that have each coordinate of the pairs along the width, negative where none has.
__device__ __forceinline__ void fill_coordinates(const StagedTile& tile, const int32_t (&first)[3], int32_t* table,
                                                 int32_t thread, int32_t threads) {
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    const TileAxis& axis = tile.axis[a];
    const int32_t rows = axis.rows();
    for (int32_t i = thread; i < rows; i += threads) {
      const int32_t unit = i / axis.length;
      const int64_t at = static_cast<int64_t>(first[a] + i % axis.length) * axis.step + axis.delta[unit];
      table[i] = at >= 0 && at < axis.source_size ? static_cast<int32_t>(at) : -1;
    }
    table += rows;
  }
  const TileAxis& axis = tile.axis[2];
  const int32_t even = first_of_pairs(tile, first[2]);
  for (int32_t i = thread; i < 2 * tile.width_pairs; i += threads) {
    table[i] = -1;
    for (int32_t unit = 0; unit < axis.units; ++unit) {
      const int32_t from = even + i - first[2] * axis.step - axis.delta[unit];
      const int32_t row = from / axis.step;
      if (from >= 0 && row * axis.step == from && row < axis.length) table[i] = unit * axis.length + row;
    }
  }
}

// A row of a stage, and where it is in the source.
struct TileRow {
  int32_t image, d, h, w;  // coordinates
  int32_t row;             // of the tile
  bool exists;
};

// kInFlight: pieces of a thread that are gathered at once.
template <typename T, int kInFlight = 2>
class TileLoader {
  static constexpr int kChannels = kPieceChannels<T>;
  using Piece = T[kChannels];

 public:
  // For `thread` of so many threads that load.
  __device__ __forceinline__ TileLoader(const TileParams<T>& params, const int32_t* coordinates, int32_t thread,
                                        int32_t threads)
      : params_(params), coordinates_(coordinates), thread_(thread), threads_(threads) {}

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
      case LoadWay::kWidthPairs:
        if constexpr (sizeof(T) == 2) {
          return params_.source.mask == nullptr ? gather_pairs<false>(stage) : gather_pairs<true>(stage);
        }
    }
  }

  // Rounds what this thread copied, which has arrived. Before a barrier.
  __device__ __forceinline__ void round_copied(const TileStage& stage) const {
    if constexpr (sizeof(T) == 4) {
      if (!params_.rounds || params_.way != LoadWay::kCopy) return;
      const int32_t count = items();
      for (int32_t item = thread_; item < count; item += threads_) {
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
      piece = item;
      image = tile.images_of_tile.take(piece);
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
    for (int32_t item = thread_; item < count; item += threads_) {
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
    constexpr int kGathered = kMasked ? kInFlight / 2 : kInFlight;
    const bool along_width = !kPieces && params_.way == LoadWay::kWidth;
    const int32_t count = items();
    for (int32_t first = thread_; first < count; first += kGathered * threads_) {
      alignas(16) T values[kGathered][kChannels];
      alignas(16) T masks[kMasked ? kGathered : 1][kChannels];
      uint32_t to[kGathered];
      int32_t left[kGathered];
#pragma unroll
      for (int i = 0; i < kGathered; ++i) {
        const int32_t item = first + i * threads_;
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
      for (int i = 0; i < kGathered; ++i) {
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
        hopper::store_shared(to[i], piece, first + i * threads_ < count);
      }
    }
  }

  // Words of two positions, of each channel of a piece, become pieces of the two.
  template <bool kMasked>
  __device__ __forceinline__ void gather_pairs(const TileStage& stage) const {
    constexpr int kGathered = kMasked ? 1 : kInFlight / 2;
    const StagedTile& tile = params_.tile;
    const int32_t rows_d = tile.axis[0].rows();
    const int32_t rows_h = tile.axis[1].rows();
    const int32_t* const pairs = coordinates_ + rows_d + rows_h + tile.axis[2].rows();
    const int32_t even = first_of_pairs(tile, stage.first_w);
    const int32_t count = tile.images * tile.axis[0].staged() * tile.axis[1].staged() * tile.width_pairs * tile.pieces;
    for (int32_t first = thread_; first < count; first += kGathered * threads_) {
      uint32_t words[kGathered][kChannels];
      uint32_t masks[kMasked ? kGathered : 1][kChannels];
      int32_t rows[kGathered][2];
      uint32_t to[kGathered];
#pragma unroll
      for (int i = 0; i < kGathered; ++i) {
        const int32_t item = first + i * threads_;
        int32_t rest = item < count ? item : 0;
        const int32_t pair = tile.pairs_of_row.take(rest);
        const int32_t h = tile.staged[1].take(rest);
        const int32_t d = tile.staged[0].take(rest);
        const int32_t image = tile.images_of_tile.take(rest);
        TileRow row;
        row.image = stage.image + image;
        row.d = coordinates_[stage.unit[0] * tile.axis[0].length + d];
        row.h = coordinates_[rows_d + stage.unit[1] * tile.axis[1].length + h];
        row.w = even + 2 * pair;
        rows[i][0] = item < count ? pairs[2 * pair] : -1;
        rows[i][1] = item < count ? pairs[2 * pair + 1] : -1;
        to[i] = stage.to + (image * tile.stride[0] + d * tile.stride[1] + h * tile.stride[2]) * tile.pitch +
                rest * kPieceBytes;
        const bool exists = (row.d | row.h | row.w) >= 0 && row.w < tile.axis[2].source_size &&
                            row.image < params_.batch && (rows[i][0] & rows[i][1]) != -1;
        const int32_t left = exists ? stage.channels - rest * kChannels : 0;
        const int64_t channel = stage.first_channel + rest * kChannels;
        read_pairs(params_.source.data, params_.source.stride, row, channel, left, words[i]);
        if constexpr (kMasked)
          read_pairs(params_.source.mask, params_.source.mask_stride, row, channel, left, masks[i]);
      }
#pragma unroll
      for (int i = 0; i < kGathered; ++i) {
        if constexpr (kMasked) {
#pragma unroll
          for (int c = 0; c < kChannels; ++c) {
            const T* const mask = reinterpret_cast<const T*>(&masks[i][c]);
            if (to_accumulator(mask[0]) <= 0) words[i][c] &= 0xFFFF0000;
            if (to_accumulator(mask[1]) <= 0) words[i][c] &= 0x0000FFFF;
          }
        }
        uint4 low;
        uint4 high;
        uint32_t* const lows = reinterpret_cast<uint32_t*>(&low);
        uint32_t* const highs = reinterpret_cast<uint32_t*>(&high);
#pragma unroll
        for (int c = 0; c < kChannels; c += 2) {
          lows[c / 2] = (words[i][c] & 0xFFFF) | words[i][c + 1] << 16;
          highs[c / 2] = words[i][c] >> 16 | (words[i][c + 1] & 0xFFFF0000);
        }
        hopper::store_shared(to[i] + rows[i][0] * tile.pitch, low, rows[i][0] >= 0);
        hopper::store_shared(to[i] + rows[i][1] * tile.pitch, high, rows[i][1] >= 0);
      }
    }
  }

  __device__ __forceinline__ static void read_pairs(const T* data, const Strides& stride, const TileRow& row,
                                                    int64_t channel, int32_t left, uint32_t (&words)[kChannels]) {
    const T* const from = data + offset_of(stride, row) + channel * stride.c;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      words[c] = c < left ? __ldg(reinterpret_cast<const uint32_t*>(from + c * stride.c)) : 0;
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
  int32_t thread_;
  int32_t threads_;
};

}  // namespace convt3d::mma
