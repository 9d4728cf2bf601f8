// Input tile with its halo -> panels of shared memory, zero outside the input: by the copy engine where the input's
// layout is already the panels', else by three warps.
#pragma once

#include "device/hopper.cuh"
#include "device/matrix_element.cuh"
#include "device/small_divisor.cuh"
#include "engines/wgmma/items.cuh"
#include "engines/wgmma/params.h"

namespace convt3d {

constexpr int kHaloLoaderThreads = 32 * kHaloLoaderWarps;
constexpr int kHaloSplitThreads = kHaloLoaderThreads - 32;  // that split a copied tile in two terms

// wgmma's swizzle of rows of 32, 64 or 128 bytes: which bits of an address are exchanged.
__device__ __forceinline__ uint32_t swizzle_mask(int row_bytes) { return static_cast<uint32_t>(row_bytes - 16) & 0x70; }
// Where the byte at `offset` of the rows lies in their panel.
__device__ __forceinline__ uint32_t swizzled(uint32_t offset, uint32_t mask) { return offset ^ (offset >> 3 & mask); }

// The loads of a walk over the items: of every item its chunks, for each unit anew where the plan says so.
template <HaloWalker kWalker>
class HaloLoadCursor {
 public:
  __device__ __forceinline__ HaloLoadCursor(const HaloPlan& plan, const HaloItems<kWalker>& items)
      : items_(items),
        chunks_(plan.chunks()),
        units_(plan.unit_loads() ? plan.units() / plan.splits : 1),
        chunk_panels_(plan.chunk_panels) {}

  __device__ __forceinline__ bool ended() const { return items_.ended(); }
  __device__ __forceinline__ uint32_t index() const { return items_.index(); }  // of the item
  __device__ __forceinline__ bool at_items_end() const { return chunk_ + 1 == chunks_ && unit_ + 1 == units_; }
  __device__ __forceinline__ bool at_items_begin() const { return chunk_ == 0 && unit_ == 0; }
  // Of the unit that the load is for, where that has a halo of its own.
  __device__ __forceinline__ int phase(const HaloPlan& plan, const HaloItem& item) const {
    return plan.phase_halos ? plan.phase_of(item.split * units_ + unit_) : 0;
  }
  __device__ __forceinline__ int loads() const { return units_ * chunks_; }  // of an item
  __device__ __forceinline__ int first_panel() const { return chunk_ * chunk_panels_; }
  __device__ __forceinline__ void advance() {
    if (++chunk_ < chunks_) return;
    chunk_ = 0;
    if (++unit_ < units_) return;
    unit_ = 0;
    items_.advance();
  }

 private:
  HaloItems<kWalker> items_;
  int chunks_;
  int units_;  // of an item that have loads of their own
  int chunk_panels_;
  int chunk_ = 0;
  int unit_ = 0;
};

// The source position of the first halo position of an item's unit.
struct HaloOrigin {
  int at[3];

  __device__ __forceinline__ HaloOrigin(const HaloPlan& plan, const HaloItem& item, int phase_index) {
    int low[3] = {plan.axis[0].low, plan.axis[1].low, plan.axis[2].low};
    if (plan.phase_halos) {
      const HaloPhase phase = halo_phase(plan, phase_index);
      low[0] = plan.axis[0].taps[phase.depth].low;
      low[1] = plan.axis[1].taps[phase.height].low;
      low[2] = plan.axis[2].taps[phase.width].low;
    }
    at[0] = (item.first[0] + low[0]) * plan.axis[0].fold;
    at[1] = (item.first[1] + low[1]) * plan.axis[1].fold;
    at[2] = item.first[2] + low[2];
  }
  // From the beginning of a box, which is a multiple of `align` elements, to the tile's.
  __device__ __forceinline__ int shift(int align) const { return at[2] & (align - 1); }
};

// What one load brings, and where it goes.
struct HaloChunk {
  HaloItem item;
  bool first;  // of the item's
  int phase;
  HaloOrigin origin;
  int first_panel;
  unsigned char* panels;
};

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

// A panel's fold: which of two neighbours along the depth and the height.
struct HaloFold {
  int depth;
  int height;

  __device__ __forceinline__ HaloFold(const HaloPlan& plan, int fold)
      : depth(fold >> (plan.axis[1].fold - 1)), height(fold & (plan.axis[1].fold - 1)) {}
};

// `thread`: of kHaloLoaderThreads.
template <typename T, int kTerms, bool kVector>
__device__ __forceinline__ void load_halo_tile(const HaloParams<T>& params, int thread, const HaloChunk& chunk) {
  constexpr int kChannels = kPieceChannels<T>;
  // In flight at a time, which hides the latency of memory: positions x pieces of each.
  constexpr int kPositions = kVector || sizeof(T) == 4 ? 4 : 2;
  constexpr int kPieces = kVector || sizeof(T) == 4 ? 2 : 1;
  const HaloPlan& plan = params.plan;
  const Source<T>& source = params.source;
  const HaloItem& item = chunk.item;
  const HaloOrigin& origin = chunk.origin;
  // Of the tile's first image and of the group.
  const int64_t offset =
      item.image * source.stride.n + static_cast<int64_t>(item.group) * plan.in_channels * source.stride.c;
  const int64_t images = plan.batch - item.image;
  const int fold_positions = plan.halo[0] * plan.halo[1] * plan.halo[2] << plan.image_log;
  const int positions = plan.folds() * fold_positions;
  const int padding = plan.fold_bytes - fold_positions * plan.row_bytes;  // from one fold's last position to the next
  const SmallDivisor width(plan.halo[2]);
  const SmallDivisor height(plan.halo[1]);
  const SmallDivisor depth(plan.halo[0]);
  const int panel_pieces = plan.row_bytes / 16;
  const uint32_t mask = swizzle_mask(plan.row_bytes);
  const int first_channel = chunk.first_panel * panel_pieces * kChannels;
  const int pieces = plan.chunk_panels * panel_pieces;
  for (int group = thread; group < positions; group += kPositions * kHaloLoaderThreads) {
    const T* data[kPositions];
    bool inside[kPositions];
    uint32_t place[kPositions];
#pragma unroll
    for (int p = 0; p < kPositions; ++p) {
      const int position = group + p * kHaloLoaderThreads;
      const int image = position & ((1 << plan.image_log) - 1);
      int w = position >> plan.image_log;
      int h = width.divide(w);
      int d = height.divide(h);
      const int in_panel = depth.divide(d);
      const HaloFold fold(plan, in_panel);
      place[p] = static_cast<uint32_t>(position * plan.row_bytes + in_panel * padding);
      d = d * plan.axis[0].fold + fold.depth + origin.at[0];
      h = h * plan.axis[1].fold + fold.height + origin.at[1];
      w += origin.at[2];
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
          const uint32_t offset = place[p] + (piece + i) % panel_pieces * 16;
          store_piece<T, kTerms>(chunk.panels + panel * plan.panel_bytes() + swizzled(offset, mask), plan.term_bytes(),
                                 values[p][i]);
        }
      }
    }
  }
}

// By one thread: the whole chunk arrives on `full`.
template <typename T>
__device__ __forceinline__ void copy_halo_tile(const HaloParams<T>& params, const HaloChunk& chunk, uint64_t* full) {
  const HaloPlan& plan = params.plan;
  const int positions = plan.folds() * plan.halo[0] * plan.halo[1] * plan.halo[2] << plan.image_log;
  const int panel_channels = plan.row_bytes / static_cast<int>(sizeof(T));
  const HaloItem& item = chunk.item;
  const HaloOrigin& origin = chunk.origin;
  unsigned char* panels = chunk.panels;
  hopper::barrier_arrive_expect(full, static_cast<uint32_t>(plan.chunk_panels * positions * plan.row_bytes));
  for (int panel = 0; panel < plan.chunk_panels; ++panel) {
    const int channel = item.group * plan.in_channels + (chunk.first_panel + panel) * panel_channels;
    for (int index = 0; index < plan.folds(); ++index) {
      const HaloFold fold(plan, index);
      const hopper::BoxOrigin box{channel, item.image, origin.at[2], origin.at[1] + fold.height,
                                  origin.at[0] + fold.depth};
      hopper::copy_box_to_shared(panels, &params.boxes, box, full);
      panels += plan.fold_bytes;
    }
  }
}

// The same of rows of positions.
template <typename T>
__device__ __forceinline__ void copy_position_rows(const HaloParams<T>& params, const HaloChunk& chunk,
                                                   uint64_t* full) {
  const HaloPlan& plan = params.plan;
  const HaloOrigin& origin = chunk.origin;
  const bool whole = plan.rows_cross_widths();  // see choose_load
  const int row = whole ? origin.at[1] * plan.tile[2] >> plan.row_log : origin.at[1];
  const int channel = chunk.item.group * plan.in_channels + chunk.first_panel * kHaloRowChannels;
  hopper::barrier_arrive_expect(full,
                                static_cast<uint32_t>(plan.chunk_panels * plan.halo_positions() * plan.row_bytes));
  hopper::copy_box_to_shared(chunk.panels, &params.boxes,
                             {whole ? 0 : origin.at[2], channel, row, origin.at[0], chunk.item.image}, full);
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

}  // namespace convt3d
