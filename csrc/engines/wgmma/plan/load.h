// How tiles of the input come to shared memory, with their halos.
#pragma once

#include <cassert>
#include <cstdint>

#include "core/host_device.h"
#include "engines/wgmma/plan/arrangement.h"
#include "engines/wgmma/plan/problem.h"
#include "engines/wgmma/plan/tile.h"

namespace convt3d {

constexpr int64_t kMostBoxExtent = 256;  // of a box of TMA, along one axis

enum class WgmmaLoadWay : int32_t {
  kElements,      // threads read element by element, whatever the layout
  kPieces,        // threads read 16 bytes of channels at a time
  kChannelBoxes,  // TMA, where channels are contiguous: boxes of channels, images, width, height, depth
  kNMajorBoxes,   // TMA, where positions are contiguous and stay so: see WgmmaNMajor
  kLineBoxes,     // TMA and then threads that transpose, where the width is contiguous: see WgmmaLineBoxes
  kPlaneBoxes,    // the same where images share a tile: see WgmmaPlaneBoxes
};

// N-major panels: where every tap reads the position itself and the input's width is contiguous, 16-bit panels may be
// as the input is, N contiguous: lines of 16, 32 or 64 positions, [channel][position]. Nothing transposes. Boxes of
// positions, channels, lines of positions, depth, images.
struct WgmmaNMajor {
  int32_t line_log;     // log2 of the positions in a line
  bool crosses_widths;  // lines follow one another through the input's width, which the tile has whole; else each is
                        // the tile's width
};

// Boxes of 16 bytes' worth of channels, which begin at a multiple of 16 bytes along the width, and which warps
// transpose: width, height, depth, channels, images.
struct WgmmaLineBoxes {
  int32_t width;      // the halo's, aligned
  int32_t lines;      // along the height
  int32_t depths;     // more than one only with all lines
  int32_t in_height;  // boxes along the tile's height
  int32_t in_depth;   // boxes along its depth
};

// Boxes of 16 bytes' worth of channels of a few images, each with its whole planes, height x width, which warps
// transpose by tables of words and their positions: elements of a plane, 1, depth, channels, images.
struct WgmmaPlaneBoxes {
  int32_t images;        // 4 or 8
  int32_t words;         // of 4 bytes, of an image's channel
  int32_t word_entries;  // of a table: whole steps of a warp, and the first once more for images that begin later
  int32_t zero_entries;  // of a table, behind those: positions without a word, in whole steps
  int32_t tables;        // one for each phase of the height and the width that has its own halo

  CONVT3D_HOST_DEVICE int32_t entries() const { return word_entries + zero_entries; }
};

// One way, and what belongs to that way alone.
class WgmmaLoad {
 public:
  WgmmaLoad() = default;
  explicit WgmmaLoad(WgmmaNMajor n_major) : way_(WgmmaLoadWay::kNMajorBoxes), n_major_(n_major) {}
  explicit WgmmaLoad(WgmmaLineBoxes lines) : way_(WgmmaLoadWay::kLineBoxes), lines_(lines) {}
  explicit WgmmaLoad(WgmmaPlaneBoxes planes) : way_(WgmmaLoadWay::kPlaneBoxes), planes_(planes) {}
  static WgmmaLoad elements() { return WgmmaLoad(WgmmaLoadWay::kElements); }
  static WgmmaLoad pieces() { return WgmmaLoad(WgmmaLoadWay::kPieces); }
  static WgmmaLoad channel_boxes() { return WgmmaLoad(WgmmaLoadWay::kChannelBoxes); }

  CONVT3D_HOST_DEVICE WgmmaLoadWay way() const { return way_; }
  CONVT3D_HOST_DEVICE bool n_major() const { return way_ == WgmmaLoadWay::kNMajorBoxes; }
  CONVT3D_HOST_DEVICE bool line_boxes() const { return way_ == WgmmaLoadWay::kLineBoxes; }
  CONVT3D_HOST_DEVICE bool plane_boxes() const { return way_ == WgmmaLoadWay::kPlaneBoxes; }
  // Warps transpose what TMA brings.
  CONVT3D_HOST_DEVICE bool transposes() const { return line_boxes() || plane_boxes(); }
  // One thread has TMA bring the panels as they are.
  CONVT3D_HOST_DEVICE bool copies() const { return way_ == WgmmaLoadWay::kChannelBoxes || n_major(); }
  CONVT3D_HOST_DEVICE bool boxes() const { return copies() || transposes(); }

  CONVT3D_HOST_DEVICE const WgmmaNMajor& as_n_major() const {
    expect(n_major());
    return n_major_;
  }
  CONVT3D_HOST_DEVICE const WgmmaLineBoxes& as_line_boxes() const {
    expect(line_boxes());
    return lines_;
  }
  CONVT3D_HOST_DEVICE const WgmmaPlaneBoxes& as_plane_boxes() const {
    expect(plane_boxes());
    return planes_;
  }

 private:
  explicit WgmmaLoad(WgmmaLoadWay way) : way_(way), n_major_{} {}
  CONVT3D_HOST_DEVICE static void expect([[maybe_unused]] bool is) {
#if !defined(__CUDA_ARCH__)
    assert(is);
#endif
  }

  WgmmaLoadWay way_;
  union {
    WgmmaNMajor n_major_;
    WgmmaLineBoxes lines_;
    WgmmaPlaneBoxes planes_;
  };
};

// What a tile's loads are planned for: an input in the output's format that is dense and begins at a multiple of 16
// bytes. Extents and channels of the problem decide; memory is shared out for it, and its products are added in the
// order that follows, whatever the strides of a call are.
WgmmaLoad load_of_tile(const WgmmaProblem& problem, int element_bytes, bool channels_last, const WgmmaProduct& product,
                       const WgmmaArrangement& arrangement, const WgmmaTile& tile);
// The load of an input whose channels are contiguous, for panels with so many bytes of a position.
WgmmaLoad load_of_channels(int element_bytes, const WgmmaProduct& product, int32_t position_bytes);

}  // namespace convt3d
