// Fills a staged tile (tile.h) from a source: channels of neighbouring positions, zeros outside of the source and past
// the channels. kThreads threads do it, the same ones for all tiles of a block, and share the pieces as load_shape.h
// says:
//
//     make_fixed(fillers);               // once
//     (the loading threads meet)
//     make_table(box, table, fillers);   // of each box or, of split axes, of each stage
//     (the loading threads meet)
//     load(stage);                       // begins copies, which are not committed; the rest is in place
//     (the thread's copies have arrived; of raw rows the loading threads meet)
//     settle(stage);                     // what is left to do: the mask, or the transposition of raw rows
//     (whoever reads the tile is told)
//
// Tables are of one stage each: what is loaded meanwhile has another.
#pragma once

#include "device/mask.cuh"
#include "device/numeric.cuh"
#include "device/ptx/async_copy.cuh"
#include "device/width_pair.cuh"
#include "engines/mma/tile/matrices.cuh"

namespace convt3d::mma {

// Which tiles a loader is for: fewer are less machine code.
enum class LoadedTiles { kAny, kChannelRows, kRowsOfChannels };

template <typename T, int kThreads, LoadedTiles kTiles = LoadedTiles::kAny>
class TileLoader : public RawMatrixLoader<T, kThreads> {
 protected:
  using Lines = TileLines<T, kThreads>;
  using Lines::fixed_;
  using Lines::kChannels;
  using Lines::kElement;
  using Lines::params_;
  using Lines::thread_;

  using typename Lines::Place;

 public:
  using RawMatrixLoader<T, kThreads>::RawMatrixLoader;

  __device__ __forceinline__ void load(const LoadStage& stage) const {
    if constexpr (kMayHaveChannelRows) {
      if (kTiles == LoadedTiles::kChannelRows || has_channel_rows(params_.way)) {
        return with_row_places([&](auto bytes, const auto& places) { copy<decltype(bytes)::value>(stage, places); });
      }
    }
    if constexpr (kTiles != LoadedTiles::kChannelRows) {
      switch (params_.way) {
        case LoadWay::kCopy:
        case LoadWay::kCopyMasked:
          return copy<kPieceBytes>(stage, FixedPlaces<kPieceBytes>{*this});
        case LoadWay::kCopyParts:
          if (params_.shape.part_bytes == 8) return copy<8>(stage, FixedPlaces<8>{*this});
          return copy<4>(stage, FixedPlaces<4>{*this});
        case LoadWay::kRows:
          return this->copy_rows(stage);
        default:
          return params_.source.mask != nullptr ? gather<true>(stage) : gather<false>(stage);
      }
    }
  }

  // Whether there is anything left to do for copies that have arrived, for all threads alike.
  __device__ __forceinline__ bool settles() const {
    return params_.way == LoadWay::kRows || copies_masked(params_.way);
  }

  // Does what is left to do for copies that have arrived: this thread's or, of raw rows, all loading threads'.
  __device__ __forceinline__ void settle(const LoadStage& stage) const {
    if constexpr (kMayHaveChannelRows) {
      if (params_.way == LoadWay::kChannelRowsMasked) {
        return with_row_places(
            [&](auto bytes, const auto& places) { mask_copied<decltype(bytes)::value>(stage, places); });
      }
    }
    if constexpr (kTiles != LoadedTiles::kChannelRows) {
      if (params_.way == LoadWay::kRows) {
        this->transpose(stage);
      } else if (params_.way == LoadWay::kCopyMasked) {
        mask_copied<kPieceBytes>(stage, FixedPlaces<kPieceBytes>{*this});
      }
    }
  }

 private:
  static constexpr bool kMayHaveChannelRows = sizeof(T) == 4 && kTiles != LoadedTiles::kRowsOfChannels;

  // What is copied to a place: from a channel and a coordinate on, that of position 0 the first.
  struct CopyPlace {
    uint32_t to;
    int32_t channel;
    int32_t w;
  };
  // The places of a tile whose pieces are channels of a position, or parts of kBytes of them.
  template <int kBytes>
  struct FixedPlaces {
    const TileLoader& loader;

    __device__ __forceinline__ int64_t origin(const LoadStage& stage) const { return loader.origin(2, stage.box); }
    __device__ __forceinline__ CopyPlace operator()(int32_t number) const {
      const Place place = loader.fixed_place(number);
      return {place.to, place.piece * (kBytes / kElement), place.w};
    }
    __device__ __forceinline__ static int64_t channel_step(const Strides&) { return 1; }
  };
  // The places of a tile of channel rows, whose pieces begin at multiples of kElements.
  template <int kElements>
  struct RowPlaces {
    const TileLoader& loader;

    __device__ __forceinline__ int64_t origin(const LoadStage& stage) const {
      const TileAxis& width = loader.params_.tile.axis[2];
      const int64_t first = loader.origin(2, stage.box) + (width.split ? 0 : width.delta[0]);
      return first & ~int64_t{kElements - 1};
    }
    __device__ __forceinline__ CopyPlace operator()(int32_t number) const {
      const int32_t w = loader.params_.shape.by_pieces.take(number) * kElements;
      return {static_cast<uint32_t>(number * loader.params_.tile.channel_rows.pitch + w * kElement), number, w};
    }
    __device__ __forceinline__ static int64_t channel_step(const Strides& stride) { return stride.c; }
  };
  template <typename Visit>
  __device__ __forceinline__ void with_row_places(Visit&& visit) const {
    if (params_.tile.channel_rows.elements == kChannels) {
      visit(typename Lines::template Count<kPieceBytes>{}, RowPlaces<kChannels>{*this});
    } else {
      visit(typename Lines::template Count<kElement>{}, RowPlaces<1>{*this});
    }
  }

  template <int kBytes, typename Places>
  __device__ __forceinline__ void copy(const LoadStage& stage, const Places& places) const {
    const Source<T>& source = params_.source;
#pragma unroll 1
    for (int i = 0; i < (copies_masked(params_.way) ? 2 : 1); ++i) {
      const bool mask = i != 0;
      copy<kBytes>(stage, places, mask ? source.mask : source.data, mask ? source.mask_stride : source.stride,
                   mask ? this->mask_table(stage) : stage.table, mask ? stage.raw : stage.to);
    }
  }

  // 16 bytes in registers, of channels or, of channel rows, of coordinates.
  struct Piece {
    alignas(16) T value[kChannels];

    // Reads the first `left` elements, or none where the address is below zero, which is nowhere; for each other one
    // that at `any`, which is not kept: of loads with conditions fewer are on their way at once.
    __device__ __forceinline__ void read(int64_t at, int64_t stride, int32_t left, const T* any) {
      const T* const from = reinterpret_cast<const T*>(at);
      if (at < 0) left = 0;
#pragma unroll
      for (int c = 0; c < kChannels; ++c) value[c] = __ldg(c < left ? from + c * stride : any);
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        if (c >= left) value[c] = T{};
      }
    }
    __device__ __forceinline__ void read_shared(uint32_t at) {
      *reinterpret_cast<uint4*>(value) = hopper::load_shared<uint4>(at);
    }
    __device__ __forceinline__ void apply(const Piece& mask) {
      if constexpr (kIsPaired<T>) {
#pragma unroll
        for (int i = 0; i < kChannels; ++i) {
          reinterpret_cast<uint32_t*>(value)[i] = masked_word<T>(reinterpret_cast<const uint32_t*>(value)[i],
                                                                 reinterpret_cast<const uint32_t*>(mask.value)[i]);
        }
      } else {
#pragma unroll
        for (int c = 0; c < kChannels; ++c) apply_mask(value[c], mask.value[c]);
      }
    }
    __device__ __forceinline__ const uint4& bytes() const { return *reinterpret_cast<const uint4*>(value); }
  };

  // Two places at a time share what is read of the lines.
  template <int kBytes, typename Places>
  __device__ __forceinline__ void copy(const LoadStage& stage, const Places& places, const T* data,
                                       const Strides& stride, uint32_t table, uint32_t tile) const {
    const int64_t origin = places.origin(stage);
    const int64_t channel_step = places.channel_step(stride);
    const int64_t first_byte = Lines::address_of(data + stage.first_channel * channel_step + origin * stride.w);
    // Outside on either side: no coordinate of a box is 2^31 below zero.
    const auto first_w = static_cast<uint32_t>(origin);
    const auto width = static_cast<uint32_t>(params_.source.size[2]);
    this->for_each_two_places([&](const auto& numbers, int32_t first, int32_t count) {
      constexpr int kCount = sizeof(numbers) / sizeof(int32_t);
      int64_t from[kCount];
      uint32_t to[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const CopyPlace place = places(numbers.of[i]);
        const bool exists = first_w + static_cast<uint32_t>(place.w) < width && place.channel < stage.channels;
        from[i] = exists ? first_byte + (place.channel * channel_step + place.w * stride.w) * kElement : kNowhere;
        to[i] = tile + place.to;
      }
      Lines::template for_each_line<8 / kCount>(table, first, count, [&](const auto& lines, uint32_t) {
#pragma unroll
        for (const LoadLine& line : lines) {
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            async_copy_from<kBytes>(to[i] + static_cast<uint32_t>(line.row), from[i] + line.source);
          }
        }
      });
    });
  }

  // Masks in place what the thread copied, by the mask, which it copied as well.
  template <int kBytes, typename Places>
  __device__ __forceinline__ void mask_copied(const LoadStage& stage, const Places& places) const {
    this->for_each_place([&](int32_t number, int32_t first, int32_t count) {
      const uint32_t at = places(number).to;
      Lines::template for_each_line<2>(stage.table, first, count, [&](const auto& lines, uint32_t) {
        constexpr int kCount = sizeof(lines) / sizeof(lines[0]);
        const auto at_line = [&](uint32_t tile, int i) { return tile + at + static_cast<uint32_t>(lines[i].row); };
        if constexpr (kBytes == kElement) {
          uint32_t masks[kCount];
          [[maybe_unused]] uint32_t words[kCount];
#pragma unroll
          for (int i = 0; i < kCount; ++i) masks[i] = hopper::load_shared<uint32_t>(at_line(stage.raw, i));
          if constexpr (kIsPaired<T>) {
#pragma unroll
            for (int i = 0; i < kCount; ++i) words[i] = hopper::load_shared<uint32_t>(at_line(stage.to, i));
#pragma unroll
            for (int i = 0; i < kCount; ++i)
              hopper::store_shared_unless<0>(at_line(stage.to, i), 1u, masked_word<T>(words[i], masks[i]));
          } else {
#pragma unroll
            for (int i = 0; i < kCount; ++i)
              hopper::store_shared_unless<0>(at_line(stage.to, i), is_masked(__uint_as_float(masks[i])), 0u);
          }
        } else {
          Piece pieces[kCount];
          Piece masks[kCount];
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            pieces[i].read_shared(at_line(stage.to, i));
            masks[i].read_shared(at_line(stage.raw, i));
          }
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            pieces[i].apply(masks[i]);
            hopper::store_shared(at_line(stage.to, i), pieces[i].bytes(), true);
          }
        }
      });
    });
  }

  // Fills the tile element by element.
  template <bool kMasked>
  __device__ __forceinline__ void gather(const LoadStage& stage) const {
    const bool along_width = params_.way == LoadWay::kWidth;
    const Source<T>& source = params_.source;
    this->for_each_place([&](int32_t number, int32_t first, int32_t count) {
      const Place place = this->place_of(number, along_width);
      const int64_t w = this->origin(2, stage.box) + place.w;
      const int32_t channel = place.piece * kChannels;
      const int32_t left = w >= 0 && w < source.size[2] ? stage.channels - channel : 0;
      const auto address = [&](const T* data, const Strides& stride) {
        return left > 0 ? Lines::address_of(data + (stage.first_channel + channel) * stride.c + w * stride.w)
                        : kNowhere;
      };
      const int64_t from = address(source.data, source.stride);
      const int64_t mask = kMasked ? address(source.mask, source.mask_stride) : 0;
      const uint32_t mask_lines = this->mask_table(stage) - stage.table;
      const uint32_t to = stage.to + place.to;
      constexpr int kBatch = kMasked ? 1 : 2;
      Lines::template for_each_line<kBatch>(stage.table, first, count, [&](const auto& lines, uint32_t table) {
        constexpr int kCount = sizeof(lines) / sizeof(lines[0]);
        Piece pieces[kCount];
        [[maybe_unused]] Piece masks[kCount];
        [[maybe_unused]] LoadLine of_mask[kCount];
        if constexpr (kMasked) Lines::read_lines(table + mask_lines, of_mask);
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          pieces[i].read(from + lines[i].source, source.stride.c, left, source.data);
          if constexpr (kMasked) masks[i].read(mask + of_mask[i].source, source.mask_stride.c, left, source.mask);
        }
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          if constexpr (kMasked) pieces[i].apply(masks[i]);
          hopper::store_shared(to + static_cast<uint32_t>(lines[i].row), pieces[i].bytes(), true);
        }
      });
    });
  }
};

}  // namespace convt3d::mma
