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

  // Sums of all sets and halves side by side, as each waits for its own. Where their outputs differ, all are summed for
  // each one's outputs, and that one is kept: in few tiles, by the same code.
  __device__ __forceinline__ void gather(const float (&c)[kSets][kN / 2]) const {
    const bool whole = is_whole();
    const bool alike = whole || params_.outputs.alike;
    PartMoments* const parts = first_part();
#pragma unroll 1
    for (int turn = 0; turn < (alike ? 1 : 2 * kSets); ++turn) {
      const Outputs outputs = find_outputs(turn / 2, turn % 2, whole);
      Sums sums[kSets][2];
      choose_pivots(c, outputs, sums);
      visit<kWords>(outputs, [&](int column) {
#pragma unroll
        for (int set = 0; set < kSets; ++set) {
#pragma unroll
          for (int half = 0; half < 2; ++half) sums[set][half].add(c[set][fragment_value(column, half)]);
        }
      });
      PartMoments moments[kSets][2];
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
#pragma unroll
        for (int half = 0; half < 2; ++half) moments[set][half] = sums[set][half].result(outputs.count);
      }
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = wgmma_row(params_.plan.arrangement, lane_, set, half);
          if (lane_ % 4 == 0 && row < channels_ && (alike || turn == 2 * set + half)) {
            store_moments(parts + phase(set, half) * params_.epilogue.moments.channels + row, moments[set][half]);
          }
        }
      }
    }
  }

 private:
  using Sums = MomentSums<3>;
  static constexpr int kWords = (kN + 31) / 32;  // of 32 columns

  // Which of a warpgroup's columns are outputs.
  struct Outputs {
    uint32_t of_thread[kWords];  // from its first column on
    int first;                   // how many there are in the first word
    int count;
  };

  // Where the tile ends past the output, the warp votes on 32 columns at a time.
  __device__ __forceinline__ Outputs find_outputs(int set, int half, bool whole) const {
    uint32_t columns[kWords];
#pragma unroll
    for (int word = 0; word < kWords; ++word) columns[word] = params_.outputs.columns[warpgroup_][word];
    if (!whole) {
      const int lane = hopper::computed_here(lane_);
#pragma unroll
      for (int word = 0; word < kWords; ++word) {
        columns[word] &= __ballot_sync(0xFFFFFFFFu, is_inside(32 * word + lane, set, half));
      }
    }
    Outputs outputs;
    outputs.first = __popc(columns[0]);
    outputs.count = 0;
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      outputs.count += __popc(columns[word]);
      outputs.of_thread[word] = columns[word] >> (2 * (lane_ % 4));
    }
    return outputs;
  }

  // Where in a set's accumulators a thread has a value: `column` is that of its row's, without other lanes' ones.
  static __device__ __forceinline__ constexpr int fragment_value(int column, int half) {
    return column / 2 * 4 + 2 * half + column % 2;
  }
  // Uses a thread's columns of the first words that are outputs.
  template <int kVisited, typename Use>
  static __device__ __forceinline__ void visit(const Outputs& outputs, Use&& use) {
#pragma unroll
    for (int column = 0; column < 8 * kVisited && column < kN / 4; ++column) {
      if ((outputs.of_thread[column / 8] >> (column % 8 / 2 * 8 + column % 2) & 1) != 0) use(column);
    }
  }

  // The mean of a row's first 32 columns or, where none of these is an output, of all.
  __device__ __forceinline__ void choose_pivots(const float (&c)[kSets][kN / 2], const Outputs& outputs,
                                                Sums (&sums)[kSets][2]) const {
    float some[kSets][2] = {};
    const auto add = [&](int column) {
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
#pragma unroll
        for (int half = 0; half < 2; ++half) some[set][half] += c[set][fragment_value(column, half)];
      }
    };
    if (outputs.first > 0) {
      visit<1>(outputs, add);
    } else {
      visit<kWords>(outputs, add);
    }
    const int count = outputs.first > 0 ? outputs.first : outputs.count;
    const float share = count > 0 ? 1 / static_cast<float>(count) : 0.0f;
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int half = 0; half < 2; ++half) sums[set][half].choose_pivot_by_share(some[set][half], share);
    }
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
      number = number * params_.plan.tile.count[i] + params_.outputs.by_size[i].quotient(work_.first[i]);
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
