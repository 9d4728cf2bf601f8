// Moments of what a warp has in its accumulators at the end of a pass (epilogue/moments.cuh). Where the halves of a
// slab's rows, or its accumulator sets, are phases, each phase is a part of its own.
#pragma once

#include "device/hopper.cuh"
#include "engines/wgmma/store/target.cuh"
#include "epilogue/moments.cuh"

namespace convt3d {

// The moments of one warp and pass. Images do not share the tile.
template <typename T, int kN, int kSets>
class WgmmaMoments {
 public:
  // `channel`: of all groups, the slab's first; `channels`: that exist from there on.
  __device__ __forceinline__ WgmmaMoments(const WgmmaParams<T>& params, const WgmmaWorkTile& work,
                                          const WgmmaResidues& residues, int warpgroup, int channel, int channels)
      : params_(params),
        work_(work),
        residues_(residues),
        warpgroup_(warpgroup),
        channel_(channel),
        channels_(channels),
        lane_(hopper::computed_here(static_cast<int>(threadIdx.x) % 32)) {}

  __device__ __forceinline__ void gather(const float (&c)[kSets][kN / 2]) const {
    const bool whole = is_whole();
    const bool alike = whole || params_.outputs.alike;
    uint32_t outputs[kWords];
    PartMoments* const parts = first_part();
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (set + half == 0 || !alike) find_outputs(set, half, whole, outputs);
        const PartMoments moments = moments_of(c[set], half, outputs);
        const int row = wgmma_row(params_.plan.arrangement, lane_, set, half);
        if (lane_ % 4 == 0 && row < channels_) {
          store_moments(parts + phase(set, half) * params_.epilogue.moments.channels + row, moments);
        }
      }
    }
  }

 private:
  static constexpr int kWords = (kN + 31) / 32;  // of 32 columns

  // Of the warpgroup's columns; where the tile ends past the output, the warp votes on 32 at a time.
  __device__ __forceinline__ void find_outputs(int set, int half, bool whole, uint32_t (&outputs)[kWords]) const {
#pragma unroll
    for (int word = 0; word < kWords; ++word) outputs[word] = params_.outputs.columns[warpgroup_][word];
    if (whole) return;
    const int lane = hopper::computed_here(lane_);
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      outputs[word] &= __ballot_sync(0xFFFFFFFFu, is_inside(32 * word + lane, set, half));
    }
  }

  // Of a thread's row and the other lanes' that have it.
  __device__ __forceinline__ PartMoments moments_of(const float (&c)[kN / 2], int half,
                                                    const uint32_t (&outputs)[kWords]) const {
    MomentSums<3> sums;
    int count = 0;
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      const int here = __popc(outputs[word]);
      const uint32_t of_thread = outputs[word] >> (2 * (lane_ % 4));
      const auto visit = [&](auto&& use) {
#pragma unroll
        for (int j = 4 * word; j < 4 * word + 4 && j < kN / 8; ++j) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            if ((of_thread >> (8 * (j - 4 * word) + i) & 1) != 0) use(c[4 * j + 2 * half + i]);
          }
        }
      };
      if (count == 0 && here > 0) {
        float some = 0;
        visit([&](float value) { some += value; });
        sums.choose_pivot(some, here);
      }
      count += here;
      visit([&](float value) { sums.add(value); });
    }
    return sums.result(count);
  }

  __device__ __forceinline__ int residue(int axis, int set, int half) const {
    const WgmmaArrangement& arrangement = params_.plan.arrangement;
    if (axis == 2 && arrangement.width_pairs()) return residues_.at[2] + half;
    if (axis == 2 && arrangement.width_sets()) return residues_.at[2] + set;
    if (axis == 1 && arrangement.height_sets()) return residues_.at[1] + set;
    return residues_.at[axis];
  }

  // Whether positions of the tile are outputs in all residues.
  __device__ __forceinline__ bool is_whole() const {
    bool whole = true;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const WgmmaAxis& axis = params_.plan.arrangement.axis[i];
      whole = whole && (work_.first[i] + params_.plan.tile.size[i]) * axis.stride <= axis.dst_size;
    }
    return whole;
  }

  // Whether a column's position lies within the output.
  __device__ __forceinline__ bool is_inside(int column, int set, int half) const {
    const auto& axes = params_.plan.arrangement.axis;
    const auto inside = [&](int axis, int position) {
      return (work_.first[axis] + position) * axes[axis].stride + residue(axis, set, half) < axes[axis].dst_size;
    };
    const WgmmaPosition at = params_.plan.tile.at(params_.plan.store.start[warpgroup_] + column);
    return inside(0, at.d) && inside(1, at.h) && inside(2, at.w);
  }

  // That of the tile's first phase: parts are numbered as WgmmaPlan::moment_parts counts them, phases fastest.
  __device__ __forceinline__ PartMoments* first_part() const {
    int64_t number = 0;
    int phases = 1;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const WgmmaTile& tile = params_.plan.tile;
      number = number * tile.count[i] + work_.first[i] / tile.size[i];
      phases *= params_.plan.arrangement.axis[i].stride;
    }
    return params_.epilogue.moments.at(work_.image, (2 * number + warpgroup_) * phases, channel_);
  }
  __device__ __forceinline__ int64_t phase(int set, int half) const {
    int number = 0;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      number = number * params_.plan.arrangement.axis[i].stride + residue(i, set, half);
    }
    return number;
  }

  const WgmmaParams<T>& params_;
  const WgmmaWorkTile& work_;
  WgmmaResidues residues_;
  int warpgroup_;
  int channel_;
  int channels_;
  int lane_;
};

}  // namespace convt3d
