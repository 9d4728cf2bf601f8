// Copies a tensor [N, C, D, H, W] of 16 or 32 bits with its channels last: dense [N][D][H][W][groups][channels of a
// group], where a group's channels are whole pieces of 16 bytes, with zeros behind those that exist. A mask is applied
// on the way.
//
// Where positions beside each other are neighbours in memory, 16 bytes of them of one channel are a *strip*. A block
// reads some strips of some channels into shared memory, and has them back as pieces:
//
//     c0: [x0 .. x7] [x8 .. x15] ..                         x0: [c0 .. c7] [c8 .. c15] ..
//     c1: [x0 .. x7] [x8 .. x15] ..    ---- 512 x 16 B ---> x1: [c0 .. c7] [c8 .. c15] ..
//
// Any other strides: a thread gathers a piece at a time.
#pragma once

#include "core/divisor.h"
#include "device/mask.cuh"
#include "device/numeric.cuh"
#include "device/overlap.cuh"
#include "device/ptx/matrices.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/source.cuh"

namespace convt3d {

constexpr int kCopyThreads = 128;
constexpr int kCopyPieces = 512;      // pieces of a block
constexpr int kMostCopyStrips = 128;  // strips that a block has of each channel, at most
constexpr int kCopySharedBytes = 16 * (kCopyPieces + kMostCopyStrips);

template <typename T>
struct ChannelsCopyParams {
  Source<T> source;  // from the first image and depth that are copied
  uint4* copy;
  int64_t copy_image;       // positions of the copy from an image to the next
  int32_t count;            // strips of each channel or, where pieces are gathered, pieces
  int32_t pieces;           // of a position
  int32_t channels;         // of a group
  Divisor pieces_of_group;  // of a position
  bool padded;              // a group's channels are no whole pieces
  bool transposes;
  bool beside;  // OperandCopy
  // What follows is of copies by strips.
  bool vectors;           // they are aligned, and those of the mask
  int32_t run;            // positions that are neighbours in memory
  Divisor strips_of_run;  // the last of which may have fewer positions
  Divisor runs_of_depth;
  Divisor depths;        // of an image, which have runs of their own
  int32_t log_pieces;    // of a block, for each of its positions
  Divisor piece_blocks;  // that share the pieces of a position
  // What follows is of copies that gather pieces.
  bool pieces_first;  // neighbouring threads have neighbouring pieces of a position, else neighbouring positions
  Divisor all_pieces;
  Divisor positions;  // of all images
  Divisor size[3];
};

template <typename T>
class ChannelsCopy {
  static constexpr int kInPiece = 16 / static_cast<int>(sizeof(T));
  static constexpr int kWarps = kCopyThreads / 32;
  static constexpr int kEach = kCopyPieces / kCopyThreads;  // pieces of a thread
  // Pieces that a warp has of eight positions (of 16 bits), or of four.
  static constexpr int kLogBeside = sizeof(T) == 2 ? 2 : 3;
  static constexpr int kLogStrips = sizeof(T) == 2 ? 6 : 7;  // of each channel, where a block has one piece

 public:
  __device__ __forceinline__ explicit ChannelsCopy(const ChannelsCopyParams<T>& params) : params_(params) {}

  template <bool kMasked, bool kPadded>
  __device__ __forceinline__ void transpose() const {
    auto strips = static_cast<int32_t>(blockIdx.x);
    const int32_t first_piece = params_.piece_blocks.take(strips) << params_.log_pieces;
    const int32_t first_strip = strips << log_strips();
    read<kMasked, kPadded>(first_piece, first_strip);
    __syncthreads();
    write(first_piece);
  }

  template <bool kMasked>
  __device__ __forceinline__ void gather() const {
    constexpr int kAtOnce = 2;
    constexpr int kQuads = kInPiece / kQuad;
#pragma unroll 1
    for (int first = 0; first < kEach; first += kAtOnce) {
      alignas(16) Quad<T> pieces[kAtOnce][kQuads];
      int64_t to[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int64_t number =
            int64_t{blockIdx.x} * kCopyPieces + (first + i) * kCopyThreads + static_cast<int32_t>(threadIdx.x);
        to[i] = -1;
        if (number >= params_.count) continue;
        auto rest = static_cast<int32_t>(number);
        int32_t piece = 0;
        if (params_.pieces_first) piece = params_.all_pieces.take(rest);
        int32_t image = rest;
        int32_t position = rest;
        if (!params_.pieces_first) {
          position = params_.positions.take(image);
          piece = image;
          image = position;
        }
        int32_t at[3];
#pragma unroll
        for (int a = 2; a >= 0; --a) at[a] = params_.size[a].take(image);
        const auto in_image = static_cast<int64_t>(at[0] * params_.source.size[1] + at[1]) * params_.source.size[2];
        to[i] = (image * params_.copy_image + in_image + at[2]) * params_.pieces + piece;
        const Channels channels = channels_of(piece, 0);
        const auto offset = [&](const Strides& stride) {
          return image * stride.n + stride.spatial(at[0], at[1], at[2]) + channels.first * stride.c;
        };
        const int64_t from = offset(params_.source.stride);
        const int64_t mask = kMasked ? offset(params_.source.mask_stride) : 0;
#pragma unroll
        for (int q = 0; q < kQuads; ++q) {
          pieces[i][q] = channels.left > q * kQuad
                             ? load_channels<kMasked>(params_.source, from, mask, q * kQuad, channels.left - q * kQuad)
                             : zero_quad<T>();
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (to[i] >= 0) params_.copy[to[i]] = *reinterpret_cast<const uint4*>(pieces[i]);
      }
    }
  }

 private:
  struct Channels {
    int32_t first;  // of the source
    int32_t left;   // that exist from there on, of its group
  };
  // From a channel of a piece on.
  __device__ __forceinline__ Channels channels_of(int32_t piece, int32_t in_piece) const {
    if (piece >= params_.pieces) return {0, 0};
    int32_t group = piece;
    const int32_t channel = params_.pieces_of_group.take(group) * kInPiece + in_piece;
    return {group * params_.channels + channel, params_.channels - channel};
  }

  struct Strip {
    int32_t image;
    int32_t d;
    int32_t h;
    int32_t in_run;  // its first position
    int32_t count;   // positions, none past the last strip
  };
  __device__ __forceinline__ Strip strip_at(int32_t number) const {
    Strip strip{};
    strip.image = number;
    strip.in_run = params_.strips_of_run.take(strip.image) * kInPiece;
    strip.h = params_.runs_of_depth.take(strip.image);
    strip.d = params_.depths.take(strip.image);
    strip.count = number < params_.count ? min(kInPiece, params_.run - strip.in_run) : 0;
    return strip;
  }
  __device__ __forceinline__ static int64_t offset_of(const Strip& strip, const Strides& stride) {
    return strip.image * stride.n + strip.d * stride.d + strip.h * stride.h + strip.in_run;
  }

  // Logarithm of the strips that a block has of each channel.
  __device__ __forceinline__ int32_t log_strips() const { return kLogStrips - params_.log_pieces; }
  // Where a strip is in shared memory. Eight neighbours of a channel, and those that a warp reads at once, are in banks
  // of their own.
  __device__ __forceinline__ uint32_t shared_strip(int32_t channel, int32_t strip) const {
    const int32_t turned = strip + (sizeof(T) == 2 ? channel / 8 * 2 + channel % 2 : channel / 4);
    return hopper::shared_address(dynamic_shared_memory) +
           static_cast<uint32_t>(((channel << log_strips()) + (strip & ~7) + (turned & 7)) * 16);
  }

  // A way to read the 16 bytes of a strip: as one vector, from an aligned address on.
  struct Vector {
    static constexpr int kAtOnce = kEach;
    uint4 value;

    __device__ __forceinline__ void load(const T* from, int32_t) {
      value = __ldg(reinterpret_cast<const uint4*>(from));
    }
    __device__ __forceinline__ uint4 strip() const { return value; }
  };
  // A way to read the 16 bytes of a strip: from any address on, by aligned words and, of 16 bits, what is left.
  struct Words {
    static constexpr int kAtOnce = kEach;
    uint32_t word[4];  // of 16 bits the first three that are whole
    uint32_t half[3];  // 0, 6 and 7
    bool is_odd;

    __device__ __forceinline__ void load(const T* from, int32_t) {
      is_odd = sizeof(T) == 2 && (reinterpret_cast<uintptr_t>(from) & 2) != 0;
      const auto* const words = reinterpret_cast<const uint32_t*>(from + is_odd);
#pragma unroll
      for (int i = 0; i < (sizeof(T) == 2 ? 3 : 4); ++i) word[i] = __ldg(words + i);
      if constexpr (sizeof(T) == 2) {
#pragma unroll
        for (int i = 0; i < 3; ++i) half[i] = __ldg(reinterpret_cast<const uint16_t*>(from) + (i > 0 ? 5 + i : 0));
      }
    }
    __device__ __forceinline__ uint4 strip() const {
      if constexpr (sizeof(T) == 4) return {word[0], word[1], word[2], word[3]};
      const uint32_t next = is_odd ? 0x5432 : 0x7654;  // the higher half of a word and the lower one of the next, or it
      return {__byte_perm(half[0], word[0], is_odd ? 0x5410 : 0x7654), __byte_perm(word[0], word[1], next),
              __byte_perm(word[1], word[2], next), __byte_perm(is_odd ? word[2] >> 16 : half[1], half[2], 0x5410)};
    }
  };
  // A way to read a strip: element by element, as many as exist.
  struct Elements {
    static constexpr int kAtOnce = 16 / kInPiece;
    alignas(16) T value[kInPiece];

    __device__ __forceinline__ void load(const T* from, int32_t count) {
#pragma unroll
      for (int i = 0; i < kInPiece; ++i) {
        value[i] = i < count ? __ldg(from + i) : from_accumulator<T>(Accumulator<T>(0));
      }
    }
    __device__ __forceinline__ uint4 strip() const { return *reinterpret_cast<const uint4*>(value); }
  };

  // Where the copy has a strip's first piece of its first position, and positions.
  struct alignas(16) StripTarget {
    int64_t to;
    int32_t count;
  };
  __device__ __forceinline__ StripTarget target_of(const Strip& strip) const {
    const int32_t row = strip.d * static_cast<int32_t>(params_.runs_of_depth.value) + strip.h;
    const int64_t position = strip.image * params_.copy_image + int64_t{row} * params_.run + strip.in_run;
    return {position * params_.pieces, strip.count};
  }
  __device__ __forceinline__ static StripTarget* targets() {
    return reinterpret_cast<StripTarget*>(dynamic_shared_memory + 16 * kCopyPieces);
  }

  template <bool kMasked, bool kPadded>
  __device__ __forceinline__ void read(int32_t first_piece, int32_t first_strip) const {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    const int32_t number = thread & ((1 << log_strips()) - 1);
    const Strip strip = strip_at(first_strip + number);
    if (number == thread) targets()[number] = target_of(strip);
    if (strip.count < kInPiece) {
      read_as<Elements, kMasked, kPadded>(first_piece, number, strip);
    } else if (params_.vectors) {
      read_as<Vector, kMasked, kPadded>(first_piece, number, strip);
    } else {
      read_as<Words, kMasked, kPadded>(first_piece, number, strip);
    }
  }

  // What a thread reads of one tensor: channels of a strip, a step apart where groups are not padded. Of channels that
  // do not exist the strip's first one is read.
  class StripSource {
   public:
    __device__ __forceinline__ StripSource(const T* data, const Strip& strip, const Strides& stride, int32_t channel,
                                           int32_t step)
        : strip_(data + offset_of(strip, stride)),
          first_(strip_ + channel * stride.c),
          step_(step * stride.c),
          channel_stride_(stride.c) {}
    __device__ __forceinline__ const T* at_step(int i, bool exists) const {
      return exists ? first_ + i * step_ : strip_;
    }
    __device__ __forceinline__ const T* at_channel(int32_t channel, bool exists) const {
      return exists ? strip_ + channel * channel_stride_ : strip_;
    }

   private:
    const T* strip_;
    const T* first_;
    int64_t step_;
    int64_t channel_stride_;
  };

  // Reads all channels that the thread has: what it reads at once is on its way before any of it is awaited.
  template <typename Loaded, bool kMasked, bool kPadded>
  __device__ __forceinline__ void read_as(int32_t first_piece, int32_t number, const Strip& strip) const {
    constexpr int kAtOnce = kMasked ? (Loaded::kAtOnce + 1) / 2 : Loaded::kAtOnce;
    const int32_t first = static_cast<int32_t>(threadIdx.x) >> log_strips();
    const int32_t step = kCopyThreads >> log_strips();
    const int32_t channel = first_piece * kInPiece + first;
    const StripSource source(params_.source.data, strip, params_.source.stride, channel, step);
    const StripSource of_mask =
        kMasked ? StripSource(params_.source.mask, strip, params_.source.mask_stride, channel, step) : source;
#pragma unroll 1
    for (int begin = 0; begin < kEach; begin += kAtOnce) {
      Loaded strips[kAtOnce];
      [[maybe_unused]] Loaded masks[kAtOnce];
      bool exists[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int32_t at = channel + (begin + i) * step;
        int32_t in_source = at;
        if constexpr (kPadded) {
          const Channels channels = channels_of(at / kInPiece, at % kInPiece);
          in_source = channels.first;
          exists[i] = channels.left > 0;
        } else {
          exists[i] = at < params_.pieces * kInPiece;
        }
        const auto load = [&](Loaded& to, const StripSource& from) {
          to.load(kPadded ? from.at_channel(in_source, exists[i]) : from.at_step(begin + i, exists[i]), strip.count);
        };
        load(strips[i], source);
        if constexpr (kMasked) load(masks[i], of_mask);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        uint4 value = strips[i].strip();
        if constexpr (kMasked) apply(masks[i].strip(), value);
        if (kPadded && !exists[i]) value = uint4{0, 0, 0, 0};
        hopper::store_shared(shared_strip(first + (begin + i) * step, number), value, true);
      }
    }
  }

  __device__ __forceinline__ static void apply(const uint4& mask, uint4& values) {
    values = {masked_word<T>(values.x, mask.x), masked_word<T>(values.y, mask.y), masked_word<T>(values.z, mask.z),
              masked_word<T>(values.w, mask.w)};
  }

  // A piece of a strip's positions, both numbers those of a block.
  struct Place {
    int32_t piece;
    int32_t strip;
  };
  // What a warp writes at once is 32 pieces, of 1 << kLogBeside places. Neighbours are pieces of one position as far as
  // there are any, then strips as far apart as no bank has two of them. Each bit of both numbers adds to a place by
  // itself.
  __device__ __forceinline__ Place place_of(int32_t item, int32_t beside) const {
    const int32_t log_pieces = min(params_.log_pieces, kLogBeside);
    const int32_t log_apart = log_pieces + 3 - kLogBeside;
    const int32_t log_items = log_strips() + log_pieces - kLogBeside;  // of the same pieces
    const int32_t of_pieces = item >> log_items;
    item -= of_pieces << log_items;
    const int32_t strip = ((item >> log_apart) << 3) + (item & ((1 << log_apart) - 1));
    return {(of_pieces << kLogBeside) + (beside & ((1 << log_pieces) - 1)),
            strip + (beside >> log_pieces << log_apart)};
  }

  __device__ __forceinline__ void write(int32_t first_piece) const {
    const auto warp = static_cast<int32_t>(threadIdx.x) / 32;
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
    constexpr int kBeside = 1 << kLogBeside;
    const int32_t in_strip = lane / kBeside;
    const Place own = place_of(warp, lane % kBeside);
    // In 16 bits, row i of matrix r is channel 2*r + i%2 of place i/2: a lane then has a place's eight channels.
    const Place row = sizeof(T) == 2 ? place_of(warp, lane % 8 / 2) : own;
    const int32_t row_channel = row.piece * kInPiece + (sizeof(T) == 2 ? lane / 8 * 2 + lane % 2 : 0);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const Place further = place_of(i * kWarps, 0);
      const uint32_t at = shared_strip(row_channel + further.piece * kInPiece, row.strip + further.strip);
      uint32_t words[4];
      if constexpr (sizeof(T) == 2) {
        load_matrices_transposed(words, at);
      } else {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          words[c] = hopper::load_shared<uint32_t>(at + static_cast<uint32_t>((c << log_strips()) * 16 + in_strip * 4));
        }
      }
      const StripTarget target = targets()[own.strip + further.strip];
      const int32_t piece = first_piece + own.piece + further.piece;
      if (in_strip >= target.count || piece >= params_.pieces) continue;
      params_.copy[target.to + (in_strip * params_.pieces + piece)] = uint4{words[0], words[1], words[2], words[3]};
    }
  }

  const ChannelsCopyParams<T>& params_;
};

template <typename T>
__global__ void __launch_bounds__(kCopyThreads, 8)
    convt3d_channels_last_copy(const __grid_constant__ ChannelsCopyParams<T> params) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // elsewhere an empty body, which no plan chooses
  if (!params.beside) wait_for_kernel_before();      // which may still read what was copied before
  begin_dependents();                                // who reads the copy waits for it
  const ChannelsCopy<T> copy(params);
  const bool masked = params.source.mask != nullptr;
  if (params.transposes) {
    if (params.padded) {
      masked ? copy.template transpose<true, true>() : copy.template transpose<false, true>();
    } else {
      masked ? copy.template transpose<true, false>() : copy.template transpose<false, false>();
    }
  } else {
    masked ? copy.template gather<true>() : copy.template gather<false>();
  }
  if (params.beside) wait_for_kernel_before();  // which ends first, as what follows waits for this kernel alone
#endif
}

}  // namespace convt3d
