// Input tile with its halo -> panels of shared memory, zero outside the input: by the copy engine where the input's
// layout is already the panels', else by three warps.
#pragma once

#include "kernels/halo_params.h"
#include "kernels/hopper.cuh"
#include "kernels/matrix_element.cuh"

namespace convt3d {

constexpr int kHaloLoaderThreads = 32 * kHaloLoaderWarps;
constexpr int kHaloSplitThreads = kHaloLoaderThreads - 32;  // that split a copied tile in two terms

// Quotients of numbers below 2^14 by a divisor that a block knows only at run time.
class SmallDivisor {
 public:
  __device__ __forceinline__ explicit SmallDivisor(int divisor)
      : divisor_(divisor), reciprocal_(((1u << 31) - 1) / static_cast<uint32_t>(divisor) + 1) {}
  __device__ __forceinline__ int quotient(int value) const {
    return static_cast<int>(__umulhi(2 * static_cast<uint32_t>(value), reciprocal_));
  }
  // Leaves the remainder.
  __device__ __forceinline__ int divide(int& value) const {
    const int result = quotient(value);
    value -= result * divisor_;
    return result;
  }

 private:
  int divisor_;
  uint32_t reciprocal_;
};

// wgmma's swizzle of rows of 32, 64 or 128 bytes: which bits of an address are exchanged.
__device__ __forceinline__ uint32_t swizzle_mask(int row_bytes) { return static_cast<uint32_t>(row_bytes - 16) & 0x70; }
// Where the byte at `offset` of the rows lies in their panel.
__device__ __forceinline__ uint32_t swizzled(uint32_t offset, uint32_t mask) { return offset ^ (offset >> 3 & mask); }

// A piece of a position, and its low term where there are two, `low` bytes further.
template <typename T, int kTerms>
__device__ __forceinline__ void store_piece(unsigned char* to, int low, const T (&values)[kPieceChannels<T>]) {
  if constexpr (kTerms == 1) {
    *reinterpret_cast<uint4*>(to) = to_matrix_piece<T>(values);
  } else {
    const uint4 piece = *reinterpret_cast<const uint4*>(values);
    *reinterpret_cast<uint4*>(to) = piece;
    *reinterpret_cast<uint4*>(to + low) = low_piece(piece);
  }
}

// `thread`: of kHaloLoaderThreads. `origin`: the source position of the tile's first halo position. `offset`: of its
// first image and of the group; `images`: how many follow.
template <typename T, int kTerms, bool kVector>
__device__ __forceinline__ void load_halo_tile(const HaloParams<T>& params, int thread, int64_t offset, int64_t images,
                                               const int (&origin)[3], int first_panel, unsigned char* panels) {
  constexpr int kChannels = kPieceChannels<T>;
  // In flight at a time, which hides the latency of memory: positions x pieces of each.
  constexpr int kPositions = kVector || sizeof(T) == 4 ? 4 : 2;
  constexpr int kPieces = kVector || sizeof(T) == 4 ? 2 : 1;
  const HaloPlan& plan = params.plan;
  const Source<T>& source = params.source;
  const int positions = plan.halo[0] * plan.halo[1] * plan.halo[2] << plan.image_log;
  const SmallDivisor width(plan.halo[2]);
  const SmallDivisor height(plan.halo[1]);
  const int panel_pieces = plan.row_bytes / 16;
  const uint32_t mask = swizzle_mask(plan.row_bytes);
  const int first_channel = first_panel * panel_pieces * kChannels;
  const int pieces = plan.chunk_panels * panel_pieces;
  for (int group = thread; group < positions; group += kPositions * kHaloLoaderThreads) {
    const T* data[kPositions];
    bool inside[kPositions];
#pragma unroll
    for (int p = 0; p < kPositions; ++p) {
      const int position = group + p * kHaloLoaderThreads;
      const int image = position & ((1 << plan.image_log) - 1);
      int w = position >> plan.image_log;
      int h = width.divide(w);
      const int d = height.divide(h) + origin[0];
      h += origin[1];
      w += origin[2];
      inside[p] = position < positions && image < images && source.contains(d, h, w);
      data[p] = source.data + offset + first_channel * source.stride.c + image * source.stride.n +
                source.stride.spatial(d, h, w);
    }
    int left = plan.in_channels - first_channel;
    for (int piece = 0; piece < pieces; piece += kPieces) {
      alignas(16) T values[kPositions][kPieces][kChannels];
#pragma unroll
      for (int p = 0; p < kPositions; ++p) {
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
          if constexpr (kVector) {
            uint4 vector = {0, 0, 0, 0};
            if (inside[p] && i * kChannels < left)
              vector = __ldg(reinterpret_cast<const uint4*>(data[p] + i * kChannels));
            *reinterpret_cast<uint4*>(values[p][i]) = vector;
          } else {
#pragma unroll
            for (int c = 0; c < kChannels; ++c) {
              const int channel = i * kChannels + c;
              values[p][i][c] = from_accumulator<T>(0.0f);
              if (inside[p] && channel < left) values[p][i][c] = __ldg(data[p] + channel * source.stride.c);
            }
          }
        }
        data[p] += kPieces * kChannels * source.stride.c;
      }
      left -= kPieces * kChannels;
#pragma unroll
      for (int p = 0; p < kPositions; ++p) {
        const int position = group + p * kHaloLoaderThreads;
        if (position >= positions) break;
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
          const int panel = (piece + i) / panel_pieces;
          const uint32_t offset = position * plan.row_bytes + (piece + i) % panel_pieces * 16;
          store_piece<T, kTerms>(panels + panel * plan.panel_bytes + swizzled(offset, mask), plan.term_bytes(),
                                 values[p][i]);
        }
      }
    }
  }
}

// By one thread: the whole chunk arrives on `full`.
template <typename T>
__device__ __forceinline__ void copy_halo_tile(const HaloParams<T>& params, const HaloItem& item,
                                               const int (&origin)[3], int first_panel, unsigned char* panels,
                                               uint64_t* full) {
  const HaloPlan& plan = params.plan;
  const int positions = plan.halo[0] * plan.halo[1] * plan.halo[2] << plan.image_log;
  const int panel_channels = plan.row_bytes / static_cast<int>(sizeof(T));
  hopper::barrier_arrive_expect(full, static_cast<uint32_t>(plan.chunk_panels * positions * plan.row_bytes));
  for (int panel = 0; panel < plan.chunk_panels; ++panel) {
    const int channel = item.group * plan.in_channels + (first_panel + panel) * panel_channels;
    hopper::copy_box_to_shared(panels + panel * plan.panel_bytes, &params.boxes,
                               {channel, item.image, origin[2], origin[1], origin[0]}, full);
  }
}

// The low term of a chunk that has arrived as it is in memory. `thread`: of kHaloSplitThreads.
__device__ __forceinline__ void split_halo_tile(const HaloPlan& plan, int thread, unsigned char* panels) {
  constexpr int kInFlight = 4;
  const uint4* high = reinterpret_cast<const uint4*>(panels);
  uint4* low = reinterpret_cast<uint4*>(panels + plan.term_bytes());
  const int pieces = plan.term_bytes() / 16;
  for (int first = thread; first < pieces; first += kInFlight * kHaloSplitThreads) {
    uint4 piece[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i * kHaloSplitThreads < pieces) piece[i] = high[first + i * kHaloSplitThreads];
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i * kHaloSplitThreads < pieces) low[first + i * kHaloSplitThreads] = low_piece(piece[i]);
    }
  }
}

// Walks the boxes of a chunk: rows fastest, then depths, then pieces of channels.
struct HaloBoxCursor {
  int row = 0;
  int d = 0;
  int piece = 0;

  __device__ __forceinline__ void next(const HaloPlan& plan) {
    row += plan.box_rows;
    if (row < plan.halo[1]) return;
    row = 0;
    d += plan.box_depths;
    if (d < plan.halo[0]) return;
    d = 0;
    ++piece;
  }
  __device__ __forceinline__ void skip(const HaloPlan& plan, int boxes) {
    for (; boxes > 0; --boxes) next(plan);
  }
};

// One warp's boxes of a tile, each a few rows, or whole depths, of 16 bytes' worth of channels: the copy engine brings
// them as they are in memory, [channel][row][width], a few ahead; the warp stores them as the rows of a panel.
template <typename T, int kTerms>
class HaloTransposer {
 public:
  __device__ __forceinline__ HaloTransposer(const HaloParams<T>& params, int warp, unsigned char* buffers,
                                            uint64_t* arrived)
      : params_(params),
        plan_(params.plan),
        buffers_(buffers),
        arrived_(arrived),
        warp_(warp),
        width_(params.plan.halo[2]),
        box_positions_(params.plan.box_depths * params.plan.box_rows * params.plan.box_width) {}

  // A chunk. `enter` waits until the panels may be written.
  template <typename Enter>
  __device__ __forceinline__ void load(const HaloItem& item, const int (&origin)[3], int first_panel,
                                       unsigned char* panels, Enter&& enter) {
    const int pieces = plan_.chunk_panels * (plan_.row_bytes / 16);
    const int first_channel = first_panel * (plan_.row_bytes / 16) * kChannels;
    const int start_w = origin[2] & -kChannels;  // a box begins at a multiple of 16 bytes
    const auto request = [&](const HaloBoxCursor& box, int slot) {
      if (box.piece >= pieces || threadIdx.x % 32 != 0) return;
      hopper::barrier_arrive_expect(&arrived_[slot], static_cast<uint32_t>(box_positions_ * 16));
      hopper::copy_box_to_shared(buffers_ + slot * kHaloBoxBytes, &params_.boxes,
                                 {start_w, origin[1] + box.row, origin[0] + box.d,
                                  item.group * plan_.in_channels + first_channel + box.piece * kChannels, item.image},
                                 &arrived_[slot]);
    };
    HaloBoxCursor ahead;
    ahead.skip(plan_, warp_);
    HaloBoxCursor box = ahead;
    for (int i = 0, slot = slot_; i < kHaloBoxBuffers; ++i) {
      request(ahead, slot);
      ahead.skip(plan_, kHaloLoaderWarps);
      slot = slot + 1 == kHaloBoxBuffers ? 0 : slot + 1;
    }
    enter();
    while (box.piece < pieces) {
      hopper::barrier_wait(&arrived_[slot_], parity_);
      const T* source = reinterpret_cast<const T*>(buffers_ + slot_ * kHaloBoxBytes) + origin[2] - start_w;
      const int channels = plan_.in_channels - first_channel - box.piece * kChannels;
      if (channels >= kChannels) {
        store<true>(source, box, kChannels, panels);
      } else {
        store<false>(source, box, channels, panels);
      }
      hopper::fence_async_proxy();
      __syncwarp();
      request(ahead, slot_);
      ahead.skip(plan_, kHaloLoaderWarps);
      box.skip(plan_, kHaloLoaderWarps);
      if (++slot_ == kHaloBoxBuffers) {
        slot_ = 0;
        parity_ ^= 1;
      }
    }
  }

 private:
  static constexpr int kChannels = kPieceChannels<T>;
  static constexpr int kInFlight = 16 / kChannels;  // positions of a lane on their way at a time

  template <bool kWhole>
  __device__ __forceinline__ void store(const T* source, const HaloBoxCursor& box, int channels,
                                        unsigned char* panels) const {
    const int panel_pieces_log = plan_.row_bytes == 128 ? 3 : plan_.row_bytes == 64 ? 2 : 1;
    const uint32_t mask = swizzle_mask(plan_.row_bytes);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int rows = min(plan_.box_rows, plan_.halo[1] - box.row) * min(plan_.box_depths, plan_.halo[0] - box.d);
    const int positions = rows * plan_.halo[2];
    const int step = box_positions_;  // from a channel to the next
    unsigned char* panel = panels + (box.piece >> panel_pieces_log) * plan_.panel_bytes;
    uint32_t offset = ((box.d * plan_.halo[1] + box.row) * plan_.halo[2] + lane) * plan_.row_bytes +
                      (box.piece & ((1 << panel_pieces_log) - 1)) * 16;
#pragma unroll 1
    for (int first = 0; 32 * first < positions; first += kInFlight) {
      alignas(16) T values[kInFlight][kChannels];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int position = lane + 32 * (first + i);
        const bool exists = position < positions;
        const T* at = source + position + width_.quotient(position) * (plan_.box_width - plan_.halo[2]);
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
          values[i][c] = exists && (kWhole || c < channels) ? at[c * step] : from_accumulator<T>(0.0f);
        }
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (lane + 32 * (first + i) < positions) {
          unsigned char* to = panel + swizzled(offset, mask);
          const uint4 piece =
              *reinterpret_cast<const uint4*>(values[i]);  // rounded by the copy engine, or of two terms
          *reinterpret_cast<uint4*>(to) = piece;
          if constexpr (kTerms == 2) *reinterpret_cast<uint4*>(to + plan_.term_bytes()) = low_piece(piece);
        }
        offset += 32 * plan_.row_bytes;
      }
    }
  }

  const HaloParams<T>& params_;
  const HaloPlan& plan_;
  unsigned char* buffers_;
  uint64_t* arrived_;
  int warp_;
  SmallDivisor width_;
  int box_positions_;
  int slot_ = 0;
  uint32_t parity_ = 0;
};

}  // namespace convt3d
