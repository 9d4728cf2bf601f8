// Moments of what a warp has in its accumulators at the end of a pass (epilogue/moments.cuh). Where the halves of a
// slab's rows, or its accumulator sets, are phases, each phase is a part of its own.
#pragma once

#include "device/hopper.cuh"
#include "engines/wgmma/store/target.cuh"
#include "epilogue/moments.cuh"

namespace convt3d {

// Of one warp and pass. Images do not share the tile.
template <typename T, int kN, int kSets>
class HaloMoments {
 public:
  // `channel`: of all groups, the slab's first; `channels`: that exist from there on.
  __device__ __forceinline__ HaloMoments(const HaloParams<T>& params, const HaloWorkTile& work,
                                         const HaloResidues& residues, int warpgroup, int channel, int channels)
      : params_(params),
        work_(work),
        residues_(residues),
        warpgroup_(warpgroup),
        channel_(channel),
        channels_(channels),
        lane_(hopper::computed_here(static_cast<int>(threadIdx.x) % 32)) {}

  __device__ __forceinline__ void gather(const float (&c)[kSets][kN / 2]) const {
    const HaloArrangement& arrangement = params_.plan.arrangement;
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      Outputs outputs = outputs_of(set, 0);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (half == 1 && arrangement.width_pairs()) outputs = outputs_of(set, half);
        const Outputs of_thread = outputs.from(2 * (lane_ % 4));
        const PartMoments moments = part_moments<3>(outputs.count(), [&](auto&& use) {
#pragma unroll
          for (int j = 0; j < kN / 8; ++j) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              if (of_thread.has(8 * j + i)) use(c[set][4 * j + 2 * half + i]);
            }
          }
        });
        const int row = halo_row(arrangement, lane_, set, half);
        if (lane_ % 4 == 0 && row < channels_) {
          store_moments(params_.epilogue.moments.at(work_.image, part(set, half), channel_ + row), moments);
        }
      }
    }
  }

 private:
  using Outputs = PlaceBits<(kN + 31) / 32>;

  __device__ __forceinline__ int residue(int axis, int set, int half) const {
    const HaloArrangement& arrangement = params_.plan.arrangement;
    if (axis == 2 && arrangement.width_pairs()) return residues_.at[2] + half;
    if (axis == 2 && arrangement.width_sets()) return residues_.at[2] + set;
    if (axis == 1 && arrangement.height_sets()) return residues_.at[1] + set;
    return residues_.at[axis];
  }

  // Of the warpgroup's columns: those that are no halo and lie within the output.
  __device__ __forceinline__ Outputs outputs_of(int set, int half) const {
    const HaloTile& tile = params_.plan.tile;
    const HaloStore& store = params_.plan.store;
    const auto& axes = params_.plan.arrangement.axis;
    const auto inside = [&](int axis, int position) {
      return (work_.first[axis] + position) * axes[axis].stride + residue(axis, set, half) < axes[axis].dst_size;
    };
    return Outputs(lane_, [&](int column) {
      const HaloPosition at = tile.at(store.start[warpgroup_] + column);
      return column < store.extent && tile.is_output(at) && inside(0, at.d) && inside(1, at.h) && inside(2, at.w);
    });
  }

  // As HaloPlan::moment_parts counts them.
  __device__ __forceinline__ int64_t part(int set, int half) const {
    int64_t number = 0;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const HaloTile& tile = params_.plan.tile;
      number = number * tile.count[i] + work_.first[i] / tile.size[i];
    }
    number = 2 * number + warpgroup_;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      number = number * params_.plan.arrangement.axis[i].stride + residue(i, set, half);
    }
    return number;
  }

  const HaloParams<T>& params_;
  const HaloWorkTile& work_;
  HaloResidues residues_;
  int warpgroup_;
  int channel_;
  int channels_;
  int lane_;
};

}  // namespace convt3d
