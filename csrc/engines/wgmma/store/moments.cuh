// Moments of what a warp has in its accumulators at the end of a pass (epilogue/moments.cuh). Where the halves of a
// slab's rows, or its accumulator sets, are phases, each phase is a part of its own.
#pragma once

#include "device/hopper.cuh"
#include "engines/wgmma/store/target.cuh"
#include "epilogue/moments.cuh"

namespace convt3d {

// Of one warp and pass. Images do not share the tile.
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
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      MomentSums<3> sums[2];  // of rows r (half 0) and r + 8
      int count[2] = {0, 0};
      const int lane = hopper::computed_here(lane_);
      // The warp votes on 32 columns at a time.
#pragma unroll
      for (int first = 0; first < kN; first += 32) {
        uint32_t outputs[2];
        outputs[0] = __ballot_sync(0xFFFFFFFFu, is_output(first + lane, set, 0, whole));
        outputs[1] = outputs[0];
        if (params_.plan.arrangement.width_pairs()) {
          outputs[1] = __ballot_sync(0xFFFFFFFFu, is_output(first + lane, set, 1, whole));
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int here = __popc(outputs[half]);
          const uint32_t of_thread = outputs[half] >> (2 * (lane % 4));
          const auto visit = [&](auto&& use) {
#pragma unroll
            for (int j = first / 8; j < first / 8 + 4 && j < kN / 8; ++j) {
#pragma unroll
              for (int i = 0; i < 2; ++i) {
                if ((of_thread >> (8 * j + i - first) & 1) != 0) use(c[set][4 * j + 2 * half + i]);
              }
            }
          };
          if (count[half] == 0 && here > 0) {
            float some = 0;
            visit([&](float value) { some += value; });
            sums[half].choose_pivot(some, here);
          }
          count[half] += here;
          visit([&](float value) { sums[half].add(value); });
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = wgmma_row(params_.plan.arrangement, lane_, set, half);
        const PartMoments moments = sums[half].result(count[half]);
        if (lane_ % 4 == 0 && row < channels_) {
          store_moments(params_.epilogue.moments.at(work_.image, part(set, half), channel_ + row), moments);
        }
      }
    }
  }

 private:
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

  // Whether a column of the warpgroup is no halo and lies within the output.
  __device__ __forceinline__ bool is_output(int column, int set, int half, bool whole) const {
    const WgmmaTile& tile = params_.plan.tile;
    const WgmmaStore& store = params_.plan.store;
    const auto& axes = params_.plan.arrangement.axis;
    const auto inside = [&](int axis, int position) {
      return (work_.first[axis] + position) * axes[axis].stride + residue(axis, set, half) < axes[axis].dst_size;
    };
    const WgmmaPosition at = tile.at(store.start[warpgroup_] + column);
    return column < store.extent && tile.is_output(at) &&
           (whole || (inside(0, at.d) && inside(1, at.h) && inside(2, at.w)));
  }

  // As WgmmaPlan::moment_parts counts them.
  __device__ __forceinline__ int64_t part(int set, int half) const {
    int64_t number = 0;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const WgmmaTile& tile = params_.plan.tile;
      number = number * tile.count[i] + work_.first[i] / tile.size[i];
    }
    number = 2 * number + warpgroup_;
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
