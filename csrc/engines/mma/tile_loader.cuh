// Fills a staged tile (tile.h) from a source: channels of neighbouring positions, zeros outside of the source and past
// the channels. kThreads threads do it, the same ones for all tiles of a block, and share the pieces as load_shape.h
// says:
//
//     make_fixed();                      // once
//     (the loading threads meet)
//     make_table(box, table);            // of each box or, of split axes, of each stage
//     (the loading threads meet)
//     load(stage);                       // begins copies, which are not committed; the rest is in place
//     (the thread's copies have arrived; of raw rows the loading threads meet)
//     settle(stage);                     // what is left to do: the mask, or the transposition of raw rows
//     (whoever reads the tile is told)
//
// Tables are of one stage each: what is loaded meanwhile has another.
#pragma once

#include "device/numeric.cuh"
#include "device/ptx/async_copy.cuh"
#include "engines/mma/tile_matrices.cuh"

namespace convt3d::mma {

template <typename T, int kThreads>
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
    const bool masked = params_.source.mask != nullptr;
    switch (params_.way) {
      case LoadWay::kCopy:
      case LoadWay::kCopyMasked:
        return copy(stage);
      case LoadWay::kRows:
        return this->copy_rows(stage);
      default:
        return masked ? gather<true>(stage) : gather<false>(stage);
    }
  }

  // Whether there is anything left to do for copies that have arrived, for all threads alike.
  __device__ __forceinline__ bool settles() const {
    return params_.way == LoadWay::kRows || params_.way == LoadWay::kCopyMasked;
  }

  // Of the copies of this thread or, of raw rows, of all loading threads, which have arrived.
  __device__ __forceinline__ void settle(const LoadStage& stage) const {
    if (params_.way == LoadWay::kRows) {
      this->transpose(stage);
    } else if (params_.way == LoadWay::kCopyMasked) {
      mask_copied(stage);
    }
  }

 private:
  __device__ __forceinline__ void copy(const LoadStage& stage) const {
    const Source<T>& source = params_.source;
#pragma unroll 1
    for (int i = 0; i < (params_.way == LoadWay::kCopyMasked ? 2 : 1); ++i) {
      const bool mask = i != 0;
      copy(stage, mask ? source.mask : source.data, mask ? source.mask_stride : source.stride,
           mask ? this->mask_table(stage) : stage.table, mask ? stage.raw : stage.to);
    }
  }

  // Of channels, in registers.
  struct Piece {
    alignas(16) T value[kChannels];

    // `left` channels exist, and none where the address is below zero, which is nowhere.
    __device__ __forceinline__ void read(int64_t at, int64_t stride, int32_t left) {
      *reinterpret_cast<uint4*>(value) = uint4{0, 0, 0, 0};
      const T* const from = reinterpret_cast<const T*>(at);
      if (at < 0) left = 0;
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        if (c < left) value[c] = __ldg(from + c * stride);
      }
    }
    __device__ __forceinline__ void read_shared(uint32_t at) {
      *reinterpret_cast<uint4*>(value) = hopper::load_shared<uint4>(at);
    }
    // As PyTorch's threshold_backward: a NaN in the output lets the gradient through.
    __device__ __forceinline__ void apply(const Piece& mask) {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        if (to_accumulator(mask.value[c]) <= 0) value[c] = from_accumulator<T>(Accumulator<T>(0));
      }
    }
    __device__ __forceinline__ const uint4& bytes() const { return *reinterpret_cast<const uint4*>(value); }
  };

  // Two places at a time share what is read of the lines.
  __device__ __forceinline__ void copy(const LoadStage& stage, const T* data, const Strides& stride, uint32_t table,
                                       uint32_t tile) const {
    const int64_t origin = this->origin(2, stage.box);
    const int64_t first_byte = Lines::address_of(data + stage.first_channel + origin * stride.w);
    // Outside on either side: no coordinate of a box is 2^31 below zero.
    const auto first_w = static_cast<uint32_t>(origin);
    const auto width = static_cast<uint32_t>(params_.source.size[2]);
    this->for_each_two_places([&](const auto& numbers, int32_t first, int32_t count) {
      constexpr int kCount = sizeof(numbers) / sizeof(int32_t);
      int64_t from[kCount];
      uint32_t to[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const Place place = this->fixed_place(numbers.of[i]);
        const int32_t channel = place.piece * kChannels;
        const bool exists = first_w + static_cast<uint32_t>(place.w) < width && channel < stage.channels;
        from[i] = exists ? first_byte + (channel + place.w * stride.w) * kElement : kNowhere;
        to[i] = tile + place.to;
      }
      Lines::template for_each_line<8 / kCount>(table, first, count, [&](const auto& lines, uint32_t) {
#pragma unroll
        for (const LoadLine& line : lines) {
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            async_copy_from(to[i] + static_cast<uint32_t>(line.row), from[i] + line.source);
          }
        }
      });
    });
  }

  // What the thread copied, in place, by the mask, which it copied as well.
  __device__ __forceinline__ void mask_copied(const LoadStage& stage) const {
    this->for_each_place([&](int32_t number, int32_t first, int32_t count) {
      const uint32_t at = this->fixed_place(number).to;
      Lines::template for_each_line<2>(stage.table, first, count, [&](const auto& lines, uint32_t) {
        constexpr int kCount = sizeof(lines) / sizeof(lines[0]);
        Piece pieces[kCount];
        Piece masks[kCount];
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          pieces[i].read_shared(stage.to + at + static_cast<uint32_t>(lines[i].row));
          masks[i].read_shared(stage.raw + at + static_cast<uint32_t>(lines[i].row));
        }
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          pieces[i].apply(masks[i]);
          hopper::store_shared(stage.to + at + static_cast<uint32_t>(lines[i].row), pieces[i].bytes(), true);
        }
      });
    });
  }

  // Element by element.
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
          pieces[i].read(from + lines[i].source, source.stride.c, left);
          if constexpr (kMasked) masks[i].read(mask + of_mask[i].source, source.mask_stride.c, left);
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
