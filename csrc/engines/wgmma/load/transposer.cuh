// Input whose width is contiguous -> panels of shared memory: TMA brings boxes as they are in memory, warps transpose
// them.
#pragma once

#include <type_traits>

#include "engines/wgmma/load/loader.cuh"
#include "engines/wgmma/load/planes.cuh"

namespace convt3d {

// One warp's boxes, each 16 bytes' worth of channels: a few lines, or whole depths, [channel][depth][line][width], or
// of kPlanes those of a few images (see planes.cuh). TMA brings them as they are in memory, a few ahead, also of the
// loads to come; the warp stores them as positions of a panel.
template <typename T, int kTerms, bool kPlanes>
class WgmmaTransposer {
 public:
  __device__ __forceinline__ WgmmaTransposer(const WgmmaParams<T>& params, int warp,
                                             const WgmmaWorkWalk<WgmmaWalker::kWarpAhead>& walk, unsigned char* buffers,
                                             const uint32_t* sources, uint64_t* arrived)
      : params_(params),
        plan_(params.plan),
        sources_(sources),
        buffers_(buffers),
        arrived_(arrived),
        warp_(warp),
        panel_pieces_log_(plan_.panels.position_bytes == 128  ? 3
                          : plan_.panels.position_bytes == 64 ? 2
                                                              : 1),
        swizzle_mask_(swizzle_mask(plan_.panels.position_bytes)),
        shape_(shape_of(plan_.load)),
        image_boxes_log_(image_boxes_log(shape_)),
        box_folds_log_(plan_.arrangement.folds_apart
                           ? 0
                           : plan_.arrangement.axis[0].fold.log() + plan_.arrangement.axis[1].fold.log()),
        boxes_(boxes_of_images_or_lines() * (plan_.panels.in_chunk << panel_pieces_log_)),
        by_boxes_in_height_(lines_or_one(&WgmmaLineBoxes::in_height)),
        by_boxes_in_depth_(lines_or_one(&WgmmaLineBoxes::in_depth)),
        by_width_(lines_or_one(&WgmmaLineBoxes::width)),
        width_fold_(plan_.arrangement.axis[2].fold),
        other_fold_bytes_(plan_.arrangement.folds_apart ? -1 : plan_.panels.fold_bytes),
        box_bytes_(bytes_of_box(shape_)),
        ahead_(plan_, walk),
        ahead_box_(warp) {
    if (warp_ >= boxes_ * ahead_.loads()) return;
    aim();
    for (int buffer = 0; buffer < kWgmmaBoxBuffers; ++buffer) request(buffer);
  }

  // The warp's share of a chunk.
  __device__ __forceinline__ void load(const WgmmaChunk& chunk) {
    const int channels = plan_.product.in_channels - (chunk.first_panel << panel_pieces_log_) * kChannels;
    box_ = chunk.first ? warp_ : box_ - boxes_;
    for (; box_ < boxes_; box_ += kWgmmaTileProducerWarps) {
      hopper::barrier_wait(&arrived_[buffer_], parity_);
      const Box at = decode(box_);
      const int left = channels - at.piece * kChannels;
      if (left >= kChannels) {
        store_box<true>(chunk, at, kChannels);
      } else {
        store_box<false>(chunk, at, left);
      }
      __syncwarp();  // the buffer has been read
      request(buffer_);
      if (++buffer_ == kWgmmaBoxBuffers) {
        buffer_ = 0;
        parity_ ^= 1;
      }
    }
  }

 private:
  static constexpr int kChannels = kPieceChannels<T>;
  static constexpr int kInFlight = sizeof(T) == 4 ? 4 : 2;  // of 32 columns
  using Shape = std::conditional_t<kPlanes, WgmmaPlaneBoxes, WgmmaLineBoxes>;

  __device__ __forceinline__ static const Shape& shape_of(const WgmmaLoad& load) {
    if constexpr (kPlanes) {
      return load.as_plane_boxes();
    } else {
      return load.as_line_boxes();
    }
  }
  __device__ __forceinline__ static int image_boxes_log(const Shape& shape) {
    if constexpr (kPlanes) return shape.images == 4 ? 1 : 0;
    return 0;
  }
  __device__ __forceinline__ static int bytes_of_box(const Shape& shape) {
    if constexpr (kPlanes) {
      return shape.images * kChannels * shape.words * 4;
    } else {
      return 16 * shape.depths * shape.lines * shape.width;
    }
  }
  __device__ __forceinline__ int boxes_of_images_or_lines() const {
    if constexpr (kPlanes) {
      return 1 << image_boxes_log_;
    } else {
      return shape_.in_height * shape_.in_depth << box_folds_log_;
    }
  }
  __device__ __forceinline__ int lines_or_one(int32_t WgmmaLineBoxes::* number) const {
    if constexpr (kPlanes) {
      return 1;
    } else {
      return shape_.*number;
    }
  }

  // First image, line and depth of a box in the tile, its fold, the first of two that share the width, and its piece of
  // the chunk's channels.
  struct Box {
    int image;
    int line;
    int depth;
    int fold;
    int piece;
  };
  __device__ __forceinline__ Box decode(int box) const {
    if constexpr (kPlanes) {
      const int piece = box >> image_boxes_log_;
      return {(box - (piece << image_boxes_log_)) * shape_.images, 0, 0, 0, piece};
    } else {
      Box at;
      at.image = 0;
      at.line = box;
      at.depth = by_boxes_in_height_.divide(at.line);
      at.fold = by_boxes_in_depth_.divide(at.depth);
      at.piece = at.fold >> box_folds_log_;
      at.fold = (at.fold - (at.piece << box_folds_log_)) << width_fold_.log();
      at.line *= shape_.lines;
      at.depth *= shape_.depths;
      return at;
    }
  }

  // Where the columns of a box go, which are numbered through its lines.
  struct Target {
    int columns;
    int shift;  // from a line's first column to the tile's
    int first;  // position of the first line's
    uint32_t base;
  };
  struct Stored {
    bool exists;  // not all columns are positions of the tile
    uint32_t at;
  };
  __device__ __forceinline__ Stored stored(const Target& target, int column) const {
    int w = column;
    const int line = by_width_.divide(w);
    w -= target.shift;
    const int in_line = width_fold_.quotient(w);
    const int position = target.first + line * plan_.tile.halo[2] + in_line;
    // Panels are aligned to the swizzle's pattern.
    const bool other = width_fold_.remainder(w) != 0;
    const uint32_t at =
        target.base + static_cast<uint32_t>((other ? other_fold_bytes_ : 0) + position * plan_.panels.position_bytes);
    return {column < target.columns && static_cast<uint32_t>(in_line) < plan_.tile.halo[2] &&
                !(other && other_fold_bytes_ < 0),
            swizzled(at, swizzle_mask_)};
  }

  // Transposes a box into a piece of channels, of which so many exist.
  template <bool kWhole>
  __device__ __forceinline__ void store_box(const WgmmaChunk& chunk, const Box& at, int channels) const {
    const unsigned char* source = buffers_ + buffer_ * kWgmmaBoxBytes;
    const int panel = at.piece >> panel_pieces_log_;
    const uint32_t base = hopper::shared_address(chunk.panels) +
                          static_cast<uint32_t>(panel * plan_.panels.panel_bytes + at.fold * plan_.panels.fold_bytes +
                                                (at.piece - (panel << panel_pieces_log_)) * 16);
    if constexpr (kPlanes) {
      WgmmaPlanes<T, kTerms>(plan_, sources_, chunk.phase, 3 - image_boxes_log_)
          .template store<kWhole>(hopper::shared_address(source), channels, base, at.image);
    } else {
      Target target;
      target.columns = min(shape_.lines, plan_.tile.halo[1] - at.line) *
                       min(shape_.depths, plan_.tile.halo[0] - at.depth) * shape_.width;
      target.shift = chunk.origin.shift(kChannels);
      target.first = (at.depth * plan_.tile.halo[1] + at.line) * plan_.tile.halo[2];
      target.base = base;
      store<kWhole>(source, channels, target);
    }
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
      const Stored to = stored(target, column + 32 * i);
      store_terms<kTerms>(to.at, plan_.panels.term_bytes, *reinterpret_cast<const uint4*>(values[i]), to.exists);
    }
  }

  // 8 columns of 8 channels are a matrix, transposed on its way through the registers.
  template <bool kWhole>
  __device__ __forceinline__ void store_matrices(uint32_t source, int step, int channels, const Target& target,
                                                 int column) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int channel = lane % 4 * 2;  // the first of two that a thread holds
    const uint32_t mask = (channel < channels ? 0x0000FFFF : 0) | (channel + 1 < channels ? 0xFFFF0000 : 0);
    const uint32_t spare = hopper::shared_address(wgmma_spare());
    uint32_t matrix[kInFlight][4];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int from = column + 32 * i < target.columns ? (column + 32 * i) & -8 : 0;
      load_matrices_transposed(matrix[i], source + static_cast<uint32_t>(lane % 8 * step + from) * 2);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if constexpr (!kWhole) {
#pragma unroll
        for (uint32_t& two : matrix[i]) two &= mask;
      }
      const Stored to = stored(target, column + 32 * i);
      hopper::store_matrices(to.exists ? to.at : spare, matrix[i]);
    }
  }

  // What the requests need of the load that they are at.
  __device__ __forceinline__ void aim() {
    if (ahead_.ended()) return;
    const WgmmaWorkTile work(plan_, ahead_.index());
    const WgmmaOrigin origin(plan_, work, ahead_.phase(plan_, work));
    ahead_origin_ = {kPlanes ? 0 : origin.at[2] - origin.shift(kChannels), kPlanes ? 0 : origin.at[1], origin.at[0],
                     work.group * plan_.product.in_channels + (ahead_.first_panel() << panel_pieces_log_) * kChannels,
                     work.image};
  }
  // The load that has the warp's next box, of the next work tile, too, or of this one only.
  template <bool kNextWork>
  __device__ __forceinline__ void find_box() {
    while (!ahead_.ended() && ahead_box_ >= boxes_ && (kNextWork || !ahead_.at_work_end())) {
      ahead_box_ = ahead_.at_work_end() ? warp_ : ahead_box_ - boxes_;
      ahead_.advance();
      aim();
    }
  }
  // Has the next box brought to a buffer, if there is one.
  __device__ __forceinline__ void request(int buffer) {
    // Not sooner: the claim of a work tile waits for products that may need what this load brings.
    find_box<true>();
    if (ahead_.ended()) return;
    const Box box = decode(ahead_box_);
    if (hopper::elect_lane()) {
      hopper::BoxOrigin origin = ahead_origin_;
      const WgmmaFold fold(plan_, box.fold);
      origin.at[1] += box.line * plan_.arrangement.axis[1].fold + fold.height;
      origin.at[2] += box.depth * plan_.arrangement.axis[0].fold + fold.depth;
      origin.at[3] += box.piece * kChannels;
      if constexpr (kPlanes) origin.at[4] += box.image;
      hopper::barrier_arrive_expect(&arrived_[buffer], static_cast<uint32_t>(box_bytes_));
      hopper::copy_box_to_shared(buffers_ + buffer * kWgmmaBoxBytes, &params_.boxes, origin, &arrived_[buffer]);
    }
    ahead_box_ += kWgmmaTileProducerWarps;
    find_box<false>();
  }

  const WgmmaParams<T>& params_;
  const WgmmaPlan& plan_;
  const uint32_t* sources_;
  unsigned char* buffers_;
  uint64_t* arrived_;
  int warp_;
  int panel_pieces_log_;
  uint32_t swizzle_mask_;
  const Shape& shape_;
  int image_boxes_log_;  // boxes of a tile's images
  int box_folds_log_;    // of the depth and the height, which are boxes of their own
  int boxes_;            // of a chunk
  SmallDivisor by_boxes_in_height_;
  SmallDivisor by_boxes_in_depth_;
  SmallDivisor by_width_;
  OneOrTwo width_fold_;
  int other_fold_bytes_;  // to the other fold of the width; negative where the panel does not have it
  int box_bytes_;
  int box_;  // of the load, or how many loads' further; the warps take a work tile's in turn
  int buffer_ = 0;
  uint32_t parity_ = 0;
  WgmmaLoadCursor<WgmmaWalker::kWarpAhead> ahead_;
  int ahead_box_;
  hopper::BoxOrigin ahead_origin_;
};

}  // namespace convt3d
