// Input tile with its halo -> panels of shared memory, zero outside the input: by the copy engine where the input's
// layout is already the panels', else by three warps.
#pragma once

#include "kernels/halo_items.cuh"
#include "kernels/halo_params.h"
#include "kernels/hopper.cuh"
#include "kernels/matrix_element.cuh"
#include "kernels/small_divisor.cuh"

namespace convt3d {

constexpr int kHaloLoaderThreads = 32 * kHaloLoaderWarps;
constexpr int kHaloSplitThreads = kHaloLoaderThreads - 32;  // that split a copied tile in two terms

// wgmma's swizzle of rows of 32, 64 or 128 bytes: which bits of an address are exchanged.
__device__ __forceinline__ uint32_t swizzle_mask(int row_bytes) { return static_cast<uint32_t>(row_bytes - 16) & 0x70; }
// Where the byte at `offset` of the rows lies in their panel.
__device__ __forceinline__ uint32_t swizzled(uint32_t offset, uint32_t mask) { return offset ^ (offset >> 3 & mask); }

// The loads of a walk over the items: of every item its chunks, for each unit anew where there are several.
template <HaloWalker kWalker>
class HaloLoadCursor {
 public:
  __device__ __forceinline__ HaloLoadCursor(const HaloPlan& plan, const HaloItems<kWalker>& items)
      : items_(items),
        chunks_(plan.chunks()),
        loads_(chunks_ == 1 ? 1 : plan.units() / plan.splits * chunks_),
        chunk_panels_(plan.chunk_panels) {}

  __device__ __forceinline__ bool ended() const { return items_.ended(); }
  __device__ __forceinline__ uint32_t index() const { return items_.index(); }  // of the item
  __device__ __forceinline__ bool at_items_end() const { return load_ + 1 == loads_; }
  __device__ __forceinline__ int first_panel() const { return chunk_ * chunk_panels_; }
  __device__ __forceinline__ void advance() {
    if (++chunk_ == chunks_) chunk_ = 0;
    if (++load_ < loads_) return;
    load_ = 0;
    items_.advance();
  }

 private:
  HaloItems<kWalker> items_;
  int chunks_;
  int loads_;  // of an item
  int chunk_panels_;
  int load_ = 0;
  int chunk_ = 0;
};

// The source position of an item's first halo position.
struct HaloOrigin {
  int at[3];

  __device__ __forceinline__ HaloOrigin(const HaloPlan& plan, const HaloItem& item)
      : at{(item.first[0] + plan.axis[0].low) * plan.axis[0].fold,
           (item.first[1] + plan.axis[1].low) * plan.axis[1].fold, item.first[2] + plan.axis[2].low} {}
  // From the beginning of a box, which is a multiple of `align` elements, to the tile's.
  __device__ __forceinline__ int shift(int align) const { return at[2] & (align - 1); }
};

// What one load brings, and where it goes.
struct HaloChunk {
  HaloItem item;
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

// One warp's boxes, each a few rows, or whole depths, of 16 bytes' worth of channels: the copy engine brings them as
// they are in memory, [channel][row][width], a few ahead, also of the loads to come; the warp stores them as the rows
// of a panel.
template <typename T, int kTerms>
class HaloTransposer {
 public:
  __device__ __forceinline__ HaloTransposer(const HaloParams<T>& params, int warp,
                                            const HaloItems<HaloWalker::kWarpAhead>& items, unsigned char* buffers,
                                            uint64_t* arrived)
      : params_(params),
        plan_(params.plan),
        buffers_(buffers),
        arrived_(arrived),
        warp_(warp),
        panel_pieces_log_(plan_.row_bytes == 128  ? 3
                          : plan_.row_bytes == 64 ? 2
                                                  : 1),
        swizzle_mask_(swizzle_mask(plan_.row_bytes)),
        boxes_(plan_.row_boxes * plan_.depth_boxes * plan_.folds() * (plan_.chunk_panels << panel_pieces_log_)),
        row_boxes_(plan_.row_boxes),
        depth_boxes_(plan_.depth_boxes),
        width_(plan_.box_width),
        folds_log_(plan_.axis[0].fold + plan_.axis[1].fold - 2),
        box_bytes_(plan_.box_depths * plan_.box_rows * plan_.box_width * 16),
        ahead_(plan_, items),
        ahead_box_(warp) {
    if (warp_ >= boxes_) return;
    aim();
    for (int slot = 0; slot < kHaloBoxBuffers; ++slot) request(slot);
  }

  // The warp's share of a chunk.
  __device__ __forceinline__ void load(const HaloChunk& chunk) {
    const int shift = chunk.origin.shift(kChannels);
    const int channels = plan_.in_channels - (chunk.first_panel << panel_pieces_log_) * kChannels;
    const uint32_t panels = hopper::shared_address(chunk.panels);
    for (int box = warp_; box < boxes_; box += kHaloLoaderWarps) {
      hopper::barrier_wait(&arrived_[slot_], parity_);
      const Box at = decode(box);
      const int panel = at.piece >> panel_pieces_log_;
      Target target;
      target.columns = min(plan_.box_rows, plan_.halo[1] - at.row) * min(plan_.box_depths, plan_.halo[0] - at.depth) *
                       plan_.box_width;
      target.shift = shift;
      target.first = (at.depth * plan_.halo[1] + at.row) * plan_.halo[2] - shift;
      target.base = panels + static_cast<uint32_t>(((panel << folds_log_) + at.fold) * plan_.fold_bytes +
                                                   (at.piece - (panel << panel_pieces_log_)) * 16);
      const int left = channels - at.piece * kChannels;
      if (left >= kChannels) {
        store<true>(buffers_ + slot_ * kHaloBoxBytes, kChannels, target);
      } else {
        store<false>(buffers_ + slot_ * kHaloBoxBytes, left, target);
      }
      __syncwarp();  // the buffer has been read
      request(slot_);
      if (++slot_ == kHaloBoxBuffers) {
        slot_ = 0;
        parity_ ^= 1;
      }
    }
  }

 private:
  static constexpr int kChannels = kPieceChannels<T>;
  static constexpr int kInFlight = sizeof(T) == 4 ? 4 : 2;  // of 32 columns

  // First row and depth of a box in the tile, its fold, and its piece of the chunk's channels.
  struct Box {
    int row;
    int depth;
    int fold;
    int piece;
  };
  __device__ __forceinline__ Box decode(int box) const {
    Box at;
    at.row = box;
    at.depth = row_boxes_.divide(at.row);
    at.fold = depth_boxes_.divide(at.depth);
    at.piece = at.fold >> folds_log_;
    at.fold -= at.piece << folds_log_;
    at.row *= plan_.box_rows;
    at.depth *= plan_.box_depths;
    return at;
  }

  // Where the columns of a box go, which are numbered through its rows.
  struct Target {
    int columns;
    int shift;
    int first;  // position of column 0
    uint32_t base;
  };
  struct Place {
    bool exists;  // not all columns are positions of the tile
    uint32_t at;
  };
  __device__ __forceinline__ Place place(const Target& target, int column) const {
    int w = column;
    const int row = width_.divide(w);
    const int position = target.first + row * plan_.halo[2] + w;
    // Panels are aligned to the swizzle's pattern.
    const uint32_t at = target.base + static_cast<uint32_t>(position * plan_.row_bytes);
    return {column < target.columns && static_cast<uint32_t>(w - target.shift) < plan_.halo[2],
            swizzled(at, swizzle_mask_)};
  }

  template <bool kWhole>
  __device__ __forceinline__ void store(const unsigned char* source, int channels, const Target& target) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int step = box_bytes_ / 16;  // from a channel to the next
#pragma unroll 1
    for (int first = 0; first < target.columns; first += 32 * kInFlight) {
      if constexpr (sizeof(T) == 4) {
        store_elements<kWhole>(reinterpret_cast<const T*>(source), step, channels, target, first + lane);
      } else {
        store_matrices<kWhole>(hopper::shared_address(source), step, channels, target, first + lane);
      }
    }
  }

  template <bool kWhole>
  __device__ __forceinline__ void store_elements(const T* source, int step, int channels, const Target& target,
                                                 int column) const {
    alignas(16) T values[kInFlight][kChannels];
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const T* at = source + c * step + column;
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        values[i][c] = column + 32 * i < target.columns && (kWhole || c < channels) ? at[32 * i] : 0;
      }
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const Place to = place(target, column + 32 * i);
      const uint4 piece = *reinterpret_cast<const uint4*>(values[i]);  // rounded by the copy engine, or of two terms
      hopper::store_shared(to.at, piece, to.exists);
      if constexpr (kTerms == 2) {
        hopper::store_shared(to.at + static_cast<uint32_t>(plan_.term_bytes()), low_piece(piece), to.exists);
      }
    }
  }

  // Rows of 8 columns of 8 channels are matrices, transposed on their way through the registers.
  template <bool kWhole>
  __device__ __forceinline__ void store_matrices(uint32_t source, int step, int channels, const Target& target,
                                                 int column) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int channel = lane % 4 * 2;  // the first of two that a thread holds
    const uint32_t mask = (channel < channels ? 0x0000FFFF : 0) | (channel + 1 < channels ? 0xFFFF0000 : 0);
    const uint32_t spare = hopper::shared_address(halo_spare());
    uint32_t matrix[kInFlight][4];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int from = column + 32 * i < target.columns ? (column + 32 * i) & -8 : 0;
      hopper::load_matrices_transposed(matrix[i], source + static_cast<uint32_t>(lane % 8 * step + from) * 2);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if constexpr (!kWhole) {
#pragma unroll
        for (uint32_t& two : matrix[i]) two &= mask;
      }
      const Place to = place(target, column + 32 * i);
      hopper::store_matrices(to.exists ? to.at : spare, matrix[i]);
    }
  }

  // What the requests need of the load that they are at.
  __device__ __forceinline__ void aim() {
    if (ahead_.ended()) return;
    const HaloItem item(plan_, ahead_.index());
    const HaloOrigin origin(plan_, item);
    ahead_origin_ = {origin.at[2] - origin.shift(kChannels), origin.at[1], origin.at[0],
                     item.group * plan_.in_channels + (ahead_.first_panel() << panel_pieces_log_) * kChannels,
                     item.image};
  }
  __device__ __forceinline__ void aim_at_next() {
    ahead_box_ = warp_;
    ahead_.advance();
    aim();
  }
  // Has the next box brought to a slot, if there is one.
  __device__ __forceinline__ void request(int slot) {
    // Not sooner: the claim of an item waits for products that may need what this load brings.
    if (ahead_box_ >= boxes_) aim_at_next();
    if (ahead_.ended()) return;
    const Box box = decode(ahead_box_);
    if (hopper::elect_lane()) {
      hopper::BoxOrigin origin = ahead_origin_;
      const HaloFold fold(plan_, box.fold);
      origin.at[1] += box.row * plan_.axis[1].fold + fold.height;
      origin.at[2] += box.depth * plan_.axis[0].fold + fold.depth;
      origin.at[3] += box.piece * kChannels;
      hopper::barrier_arrive_expect(&arrived_[slot], static_cast<uint32_t>(box_bytes_));
      hopper::copy_box_to_shared(buffers_ + slot * kHaloBoxBytes, &params_.boxes, origin, &arrived_[slot]);
    }
    ahead_box_ += kHaloLoaderWarps;
    if (ahead_box_ >= boxes_ && !ahead_.at_items_end()) aim_at_next();
  }

  const HaloParams<T>& params_;
  const HaloPlan& plan_;
  unsigned char* buffers_;
  uint64_t* arrived_;
  int warp_;
  int panel_pieces_log_;
  uint32_t swizzle_mask_;
  int boxes_;  // of a chunk
  SmallDivisor row_boxes_;
  SmallDivisor depth_boxes_;
  SmallDivisor width_;
  int folds_log_;
  int box_bytes_;
  int slot_ = 0;
  uint32_t parity_ = 0;
  HaloLoadCursor<HaloWalker::kWarpAhead> ahead_;
  int ahead_box_;
  hopper::BoxOrigin ahead_origin_;
};

}  // namespace convt3d
