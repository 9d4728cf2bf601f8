// What the ways of storing a warp's outputs share: the segments of its staging, and where they go.
#pragma once

#include <type_traits>

#include "device/numeric.cuh"
#include "engines/wgmma/params.h"

namespace convt3d {

// Of a pass, of each axis; 0 where it has both.
struct WgmmaResidues {
  int at[3];
};

// The channel of a slab, from its first on, that a thread has in rows r (half 0) or r + 8 of an accumulator set.
__device__ __forceinline__ int wgmma_row(const WgmmaArrangement& arrangement, int lane, int set, int half) {
  return lane / 4 + (arrangement.width_pairs() ? 0 : 8 * half) +
         (arrangement.channel_sets() ? kWgmmaSlabRows * set : 0);
}

// A segment of a warpgroup's outputs, as positions of the tile.
struct alignas(kWgmmaStoredSegmentBytes) WgmmaStoredSegment {
  uint16_t d;
  uint16_t h;
  uint16_t w;
  uint16_t columns;
  uint16_t first;   // column of the segment that `w` is
  uint16_t offset;  // in a warp's staging or, of runs, in each channel's
  uint16_t step;    // to where the next box begins or, of runs, the next burst
};

// Neighbours along the width, whose outputs leave from the registers.
struct alignas(16) WgmmaStoredPair {
  uint16_t d;
  uint16_t h;
  uint16_t w;
  uint16_t positions;  // of two, that the warpgroup has; 0: the pair begins elsewhere, or is no output
  uint16_t kept;       // among the pairs that a warp keeps
  uint32_t offset;     // elements of the output from the tile's first position on
};
static_assert(sizeof(WgmmaStoredPair) == 8 * kWgmmaColumnBytes);  // the table of columns has room for it

// In which order a warp stages its outputs.
enum class WgmmaStagedOrder {
  kWidths,       // [channel][voxel]: a thread's two columns are neighbours
  kWidthPhases,  // [channel][voxel], the two phases of the two columns being neighbours, from rows r and r + 8
  kWidthSets,    // [channel][voxel], the two phases of the two columns being neighbours, from the two sets
  kChannels,     // [voxel][channel]
};

// A pass's outputs of one slab.
template <typename T>
struct WgmmaTarget {
  T* destination;  // of the tile's first position and the slab's first channel
  int left[3];     // positions from there to the output's end; where a pass has both phases of an axis, outputs

  WgmmaTarget() = default;
  __device__ __forceinline__ WgmmaTarget(const WgmmaParams<T>& params, const WgmmaWorkTile& work,
                                         const WgmmaResidues& residues, bool paired_width, int channel) {
    int at[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const WgmmaAxis& axis = params.plan.arrangement.axis[i];
      at[i] = work.first[i] * axis.stride + residues.at[i];
      const bool both = i == 2 ? paired_width : i == 1 && params.plan.arrangement.height_sets();
      left[i] = (both ? OneOrTwo{1} : axis.stride).quotient(axis.dst_size - 1 - at[i]) + 1;
    }
    const Strides& stride = params.destination_stride;
    destination = params.destination + work.image * stride.n + channel * stride.c + stride.spatial(at[0], at[1], at[2]);
  }

  // Of a position of the tile.
  __device__ __forceinline__ T* at(const WgmmaParams<T>& params, int d, int h, int w) const {
    const auto& axis = params.plan.arrangement.axis;
    return destination + params.destination_stride.spatial(d * axis[0].stride, h * axis[1].stride, w * axis[2].stride);
  }
};

}  // namespace convt3d
