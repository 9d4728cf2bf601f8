// Input tile with its halo -> panels of shared memory, zero outside the input: by TMA where the input's layout is
// already the panels', else by the three producer warps.
#pragma once

#include "device/hopper.cuh"
#include "device/matrix_element.cuh"
#include "device/small_divisor.cuh"
#include "device/swizzle.h"
#include "engines/wgmma/params.h"
#include "engines/wgmma/scheduler.cuh"

namespace convt3d {

constexpr int kWgmmaTileProducerThreads = 32 * kWgmmaTileProducerWarps;
constexpr int kWgmmaSplitThreads = kWgmmaTileProducerThreads - 32;  // that split a copied tile in two terms

// The loads of a walk over the work tiles: of every one its chunks, for each pass anew where the plan says so.
template <WgmmaWalker kWalker>
class WgmmaLoadCursor {
 public:
  __device__ __forceinline__ WgmmaLoadCursor(const WgmmaPlan& plan, const WgmmaWorkWalk<kWalker>& walk)
      : walk_(walk),
        chunks_(plan.loops.chunks),
        passes_(plan.loads_each_pass() ? plan.split_passes() : 1),
        chunk_panels_(plan.panels.in_chunk) {}

  __device__ __forceinline__ bool ended() const { return walk_.ended(); }
  __device__ __forceinline__ uint32_t index() const { return walk_.index(); }  // of the work tile
  __device__ __forceinline__ bool at_work_end() const { return chunk_ + 1 == chunks_ && pass_ + 1 == passes_; }
  __device__ __forceinline__ bool at_work_begin() const { return chunk_ == 0 && pass_ == 0; }
  // The phase of the pass that the load is for, where that has a halo of its own; else 0.
  __device__ __forceinline__ int phase(const WgmmaPlan& plan, const WgmmaWorkTile& work) const {
    return plan.arrangement.phase_halos ? plan.arrangement.phase_of(work.split * passes_ + pass_) : 0;
  }
  __device__ __forceinline__ int loads() const { return passes_ * chunks_; }  // of a work tile
  __device__ __forceinline__ int first_panel() const { return chunk_ * chunk_panels_; }
  __device__ __forceinline__ void advance() {
    if (++chunk_ < chunks_) return;
    chunk_ = 0;
    if (++pass_ < passes_) return;
    pass_ = 0;
    walk_.advance();
  }

 private:
  WgmmaWorkWalk<kWalker> walk_;
  int chunks_;
  int passes_;  // of a work tile that have loads of their own
  int chunk_panels_;
  int chunk_ = 0;
  int pass_ = 0;
};

// The source position of the first halo position of a work tile's pass.
struct WgmmaOrigin {
  int at[3];

  __device__ __forceinline__ WgmmaOrigin(const WgmmaPlan& plan, const WgmmaWorkTile& work, int phase_index) {
    const auto& axis = plan.arrangement.axis;
    int low[3] = {axis[0].low, axis[1].low, axis[2].low};
    int fold[3] = {0, 0, 0};
    if (plan.arrangement.phase_halos) {
      const WgmmaPhase phase = plan.arrangement.phase(phase_index);
      const WgmmaTaps& depth = axis[0].taps[phase.depth];
      const WgmmaTaps& height = axis[1].taps[phase.height];
      const WgmmaTaps& width = axis[2].taps[phase.width];
      low[0] = depth.low;
      low[1] = height.low;
      low[2] = width.low;
      fold[0] = depth.fold;
      fold[1] = height.fold;
      fold[2] = width.fold;
    }
#pragma unroll
    for (int i = 0; i < 3; ++i) at[i] = (work.first[i] + low[i]) * axis[i].fold + fold[i];
  }
  // From the beginning of a box, which is a multiple of `align` elements, to the tile's.
  __device__ __forceinline__ int shift(int align) const { return at[2] & (align - 1); }
};

// What one load brings, and where it goes.
struct WgmmaChunk {
  WgmmaWorkTile work;
  bool first;  // of the work tile's
  int phase;
  WgmmaOrigin origin;
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

// A fold of a panel: which of two neighbours along each axis. Of folds that are apart the tile's origin knows it.
struct WgmmaFold {
  int depth;
  int height;
  int width;

  __device__ __forceinline__ WgmmaFold(const WgmmaPlan& plan, int fold) {
    const auto& axis = plan.arrangement.axis;
    width = axis[2].fold.remainder(fold);
    fold = axis[2].fold.quotient(fold);
    height = axis[1].fold.remainder(fold);
    depth = axis[1].fold.quotient(fold);
  }
};

// By threads, element by element or, kByPieces, 16 bytes at a time. `thread`: of kWgmmaTileProducerThreads.
template <typename T, int kTerms, bool kByPieces>
__device__ __forceinline__ void load_wgmma_tile(const WgmmaParams<T>& params, int thread, const WgmmaChunk& chunk) {
  constexpr int kChannels = kPieceChannels<T>;
  // In flight at a time, which hides the latency of memory: positions x pieces of each.
  constexpr int kPositions = kByPieces || sizeof(T) == 4 ? 4 : 2;
  constexpr int kPieces = kByPieces || sizeof(T) == 4 ? 2 : 1;
  const WgmmaPlan& plan = params.plan;
  const Source<T>& source = params.source;
  const WgmmaWorkTile& work = chunk.work;
  const WgmmaOrigin& origin = chunk.origin;
  // The offset of the tile's first image and of the group.
  const int64_t offset =
      work.image * source.stride.n + static_cast<int64_t>(work.group) * plan.product.in_channels * source.stride.c;
  const int64_t images = plan.product.images - work.image;
  const int fold_positions = plan.tile.halo[0] * plan.tile.halo[1] * plan.tile.halo[2] << plan.tile.image_log;
  const int positions = plan.arrangement.folds() * fold_positions;
  const int padding = plan.panels.fold_bytes -
                      fold_positions * plan.panels.position_bytes;  // from one fold's last position to the next
  const SmallDivisor width(plan.tile.halo[2]);
  const SmallDivisor height(plan.tile.halo[1]);
  const SmallDivisor depth(plan.tile.halo[0]);
  const int panel_pieces = plan.panels.position_bytes / 16;
  const uint32_t mask = swizzle_mask(plan.panels.position_bytes);
  const int first_channel = chunk.first_panel * panel_pieces * kChannels;
  const int pieces = plan.panels.in_chunk * panel_pieces;
  for (int group = thread; group < positions; group += kPositions * kWgmmaTileProducerThreads) {
    const T* data[kPositions];
    bool inside[kPositions];
    uint32_t row[kPositions];  // of the panels, in bytes
#pragma unroll
    for (int p = 0; p < kPositions; ++p) {
      const int position = group + p * kWgmmaTileProducerThreads;
      const int image = position & ((1 << plan.tile.image_log) - 1);
      int w = position >> plan.tile.image_log;
      int h = width.divide(w);
      int d = height.divide(h);
      const int in_panel = depth.divide(d);
      const WgmmaFold fold(plan, in_panel);
      row[p] = static_cast<uint32_t>(position * plan.panels.position_bytes + in_panel * padding);
      d = d * plan.arrangement.axis[0].fold + fold.depth + origin.at[0];
      h = h * plan.arrangement.axis[1].fold + fold.height + origin.at[1];
      w = w * plan.arrangement.axis[2].fold + fold.width + origin.at[2];
      inside[p] = position < positions && image < images && source.contains(d, h, w);
      data[p] = source.data + offset + first_channel * source.stride.c + image * source.stride.n +
                source.stride.spatial(d, h, w);
    }
    int left = plan.product.in_channels - first_channel;
    for (int piece = 0; piece < pieces; piece += kPieces) {
      alignas(16) T values[kPositions][kPieces][kChannels];
#pragma unroll
      for (int p = 0; p < kPositions; ++p) {
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
          if constexpr (kByPieces) {
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
        const int position = group + p * kWgmmaTileProducerThreads;
        if (position >= positions) break;
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
          const int panel = (piece + i) / panel_pieces;
          const uint32_t offset = row[p] + (piece + i) % panel_pieces * 16;
          store_piece<T, kTerms>(chunk.panels + panel * plan.panels.panel_bytes + swizzled(offset, mask),
                                 plan.panels.term_bytes, values[p][i]);
        }
      }
    }
  }
}

// By one thread: the whole chunk arrives on `full`.
template <typename T>
__device__ __forceinline__ void copy_wgmma_tile(const WgmmaParams<T>& params, const WgmmaChunk& chunk, uint64_t* full) {
  const WgmmaPlan& plan = params.plan;
  const int positions = plan.arrangement.folds() * plan.tile.halo[0] * plan.tile.halo[1] * plan.tile.halo[2]
                        << plan.tile.image_log;
  const int panel_channels = plan.panels.position_bytes / static_cast<int>(sizeof(T));
  const WgmmaWorkTile& work = chunk.work;
  const WgmmaOrigin& origin = chunk.origin;
  unsigned char* panels = chunk.panels;
  hopper::barrier_arrive_expect(full,
                                static_cast<uint32_t>(plan.panels.in_chunk * positions * plan.panels.position_bytes));
  for (int panel = 0; panel < plan.panels.in_chunk; ++panel) {
    const int channel = work.group * plan.product.in_channels + (chunk.first_panel + panel) * panel_channels;
    for (int index = 0; index < plan.arrangement.folds(); ++index) {
      const WgmmaFold fold(plan, index);
      const hopper::BoxOrigin box{channel, work.image, origin.at[2] + fold.width, origin.at[1] + fold.height,
                                  origin.at[0] + fold.depth};
      hopper::copy_box_to_shared(panels, &params.boxes, box, full);
      panels += plan.panels.fold_bytes;
    }
  }
}

// A chunk of N-major panels, which is one box, by one thread; it arrives on `full`.
template <typename T>
__device__ __forceinline__ void copy_n_major_tile(const WgmmaParams<T>& params, const WgmmaChunk& chunk,
                                                  uint64_t* full) {
  const WgmmaPlan& plan = params.plan;
  const WgmmaOrigin& origin = chunk.origin;
  const WgmmaNMajor& n_major = plan.load.as_n_major();
  const bool crosses = n_major.crosses_widths;
  const int line = crosses ? origin.at[1] * plan.tile.size[2] >> n_major.line_log : origin.at[1];
  const int channel = chunk.work.group * plan.product.in_channels + chunk.first_panel * kWgmmaNMajorChannels;
  hopper::barrier_arrive_expect(
      full, static_cast<uint32_t>(plan.panels.in_chunk * plan.tile.halo_positions() * plan.panels.position_bytes));
  hopper::copy_box_to_shared(chunk.panels, &params.boxes,
                             {crosses ? 0 : origin.at[2], channel, line, origin.at[0], chunk.work.image}, full);
}

// The zeros behind the lines of all panels, which nothing overwrites. `thread`: of so many `threads`.
__device__ __forceinline__ void clear_zeros(const WgmmaPlan& plan, int thread, int threads, unsigned char* tiles) {
  if (plan.tile.zeros == 0) return;
  const WgmmaPanels& panels = plan.panels;
  const int lines_bytes = plan.tile.halo_positions() * panels.position_bytes;
  const int pieces = plan.tile.zeros * panels.position_bytes / 16;  // of a fold
  const int end = plan.pipelines.tile_stages * panels.tile_bytes;
#pragma unroll 1
  for (int fold = 0; fold < end; fold += panels.fold_bytes) {
#pragma unroll 1
    for (int i = thread; i < pieces; i += threads) {
      *reinterpret_cast<uint4*>(tiles + fold + lines_bytes + 16 * i) = uint4{0, 0, 0, 0};
    }
  }
  hopper::fence_async_proxy();
}

// The low term of a chunk that has arrived as it is in memory. `thread`: of kWgmmaSplitThreads.
__device__ __forceinline__ void split_wgmma_tile(const WgmmaPlan& plan, int thread, unsigned char* panels) {
  constexpr int kInFlight = 4;
  const uint4* high = reinterpret_cast<const uint4*>(panels);
  uint4* low = reinterpret_cast<uint4*>(panels + plan.panels.term_bytes);
  const int pieces = plan.panels.term_bytes / 16;
  for (int first = thread; first < pieces; first += kInFlight * kWgmmaSplitThreads) {
    uint4 piece[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i * kWgmmaSplitThreads < pieces) piece[i] = high[first + i * kWgmmaSplitThreads];
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i * kWgmmaSplitThreads < pieces) low[first + i * kWgmmaSplitThreads] = low_piece(piece[i]);
    }
  }
}

}  // namespace convt3d
