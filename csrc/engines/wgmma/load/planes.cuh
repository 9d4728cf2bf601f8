// Boxes of whole planes (height x width) of the input, of a few images, where images share a tile and the width is
// contiguous (WgmmaPlaneBoxes). A box lies as in memory, [image][channel][depth][height][width], with zeros where the
// depth is outside. Its channels' words (4 bytes: one element, or two neighbours of 16 bits) all have their positions
// in the tile; the tile's other positions are zeros. Tables say which those are, for each phase of the height and the
// width that has a halo of its own.
#pragma once

#include "device/hopper.cuh"
#include "device/matrix_element.cuh"
#include "device/small_divisor.cuh"
#include "engines/wgmma/load/loader.cuh"

namespace convt3d {

// By the producers of tiles.
template <typename T>
__device__ __forceinline__ void fill_sources(const WgmmaPlan& plan, int thread, uint32_t* sources) {
  constexpr int kWordElements = 4 / sizeof(T);
  const int heights = plan.arrangement.axis[1].src_size;
  const int widths = plan.arrangement.axis[2].src_size;
  const int plane_elements = plan.tile.halo[0] * heights * widths;  // of an image's channel
  const WgmmaPlaneBoxes& boxes = plan.load.as_plane_boxes();
  const SmallDivisor by_words(boxes.words);
  for (int table = 0; table < boxes.tables; ++table) {
    const WgmmaPhase phase = plan.arrangement.phase(table);
    const int low_h = plan.arrangement.axis[1].taps[phase.height].low;
    const int low_w = plan.arrangement.axis[2].taps[phase.width].low;
    uint32_t* entries = sources + table * boxes.entries();
    const SmallDivisor by_width(widths);
    const SmallDivisor by_height(heights);
    for (int index = thread; index < boxes.word_entries; index += kWgmmaTileProducerThreads) {
      int word = index;
      by_words.divide(word);
      int w = word * kWordElements;
      int h = by_width.divide(w);
      const int d = by_height.divide(h);
      entries[index] = wgmma_source(word, (d * plan.tile.halo[1] + h - low_h) * plan.tile.halo[2] + w - low_w);
    }
    // The i-th position without a word, by those before it that have one.
    entries += boxes.word_entries;
    const SmallDivisor by_halo_width(plan.tile.halo[2]);
    const SmallDivisor by_halo_height(plan.tile.halo[1]);
    for (int position = thread; position < plan.tile.halo_positions(); position += kWgmmaTileProducerThreads) {
      int w = position;
      int h = by_halo_width.divide(w);
      const int d = by_halo_height.divide(h);
      h += low_h;
      w += low_w;
      if (h >= 0 && h < heights && w >= 0 && w < widths) continue;
      const int before =
          (d * heights + min(max(h, 0), heights)) * widths + (h >= 0 && h < heights ? min(max(w, 0), widths) : 0);
      const int index = position - before;
      entries[index] = wgmma_source(0, position);
      if (index > 0) continue;
      for (int more = plan.tile.halo_positions() - plane_elements; more < boxes.zero_entries; ++more) {
        entries[more] = wgmma_source(0, position);
      }
    }
  }
}

// To panels of one or two terms, `term_bytes` apart.
template <int kTerms>
__device__ __forceinline__ void store_terms(uint32_t to, int term_bytes, const uint4& piece, bool exists = true) {
  hopper::store_shared(to, piece, exists);
  if constexpr (kTerms == 2) hopper::store_shared(to + static_cast<uint32_t>(term_bytes), low_piece(piece), exists);
}

// One warp's way of storing a box. Lanes are images first: their rows follow one another in the panel, and of each
// position the swizzle exchanges the same bits. In the box images lie a multiple of 128 bytes apart, or of 32: each is
// at other words. What a step has too much is stored twice, which is cheaper than a test.
template <typename T, int kTerms>
class WgmmaPlanes {
 public:
  // `images_log`: of the box.
  __device__ __forceinline__ WgmmaPlanes(const WgmmaPlan& plan, const uint32_t* sources, int phase, int images_log)
      : plan_(plan),
        boxes_(plan.load.as_plane_boxes()),
        entries_(sources + (phase & boxes_.tables - 1) * boxes_.entries()),
        images_log_(images_log),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // 16 bytes' worth of channels, of which `channels` exist. `to`: address of the piece of the tile's first position and
  // image; `first_image`: of the box, in the tile.
  template <bool kWhole>
  __device__ __forceinline__ void store(uint32_t box, int channels, uint32_t to, int first_image) const {
    const int image = lane_ & ((1 << images_log_) - 1);
    const int lanes = 32 >> images_log_;                            // of an image
    const uint32_t step = static_cast<uint32_t>(boxes_.words) * 4;  // from a channel to the next
    const uint32_t from = box + static_cast<uint32_t>(image * kChannels) * step;
    to = swizzled(to + static_cast<uint32_t>((first_image + image) * plan_.panels.position_bytes),
                  swizzle_mask(plan_.panels.position_bytes));
    const uint32_t to_step = static_cast<uint32_t>(plan_.panels.position_bytes) << plan_.tile.image_log;
    const uint32_t* entries = entries_ + (lane_ >> images_log_);
#pragma unroll 1
    for (int first = 0; first < boxes_.words; first += kWgmmaWordsInFlight * lanes) {
      alignas(16) T values[kWgmmaWordsInFlight][kWordElements][kChannels];
      uint32_t at[kWgmmaWordsInFlight];
#pragma unroll
      for (int i = 0; i < kWgmmaWordsInFlight; ++i) {
        const uint32_t entry = entries[first + (image + i) * lanes];
        at[i] = to + (entry >> 16) * to_step;
        const uint32_t word = from + (entry & 0xFFFF) * 4;
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
          const uint32_t bits = kWhole || c < channels ? hopper::load_shared<uint32_t>(word + c * step) : 0;
#pragma unroll
          for (int e = 0; e < kWordElements; ++e) values[i][e][c] = reinterpret_cast<const T*>(&bits)[e];
        }
      }
#pragma unroll
      for (int i = 0; i < kWgmmaWordsInFlight; ++i) {
#pragma unroll
        for (int e = 0; e < kWordElements; ++e) {
          store_terms<kTerms>(at[i] + e * to_step, plan_.panels.term_bytes,
                              *reinterpret_cast<const uint4*>(values[i][e]));  // rounded by TMA
        }
      }
    }
    entries += boxes_.word_entries;
#pragma unroll 1
    for (int first = 0; first < boxes_.zero_entries; first += kWgmmaWordsInFlight * lanes) {
      uint32_t at[kWgmmaWordsInFlight];
#pragma unroll
      for (int i = 0; i < kWgmmaWordsInFlight; ++i) at[i] = to + (entries[first + i * lanes] >> 16) * to_step;
#pragma unroll
      for (int i = 0; i < kWgmmaWordsInFlight; ++i) store_terms<kTerms>(at[i], plan_.panels.term_bytes, {0, 0, 0, 0});
    }
  }

 private:
  static constexpr int kChannels = kPieceChannels<T>;
  static constexpr int kWordElements = 4 / sizeof(T);

  const WgmmaPlan& plan_;
  const WgmmaPlaneBoxes& boxes_;
  const uint32_t* entries_;
  int images_log_;
  int lane_;
};

}  // namespace convt3d
