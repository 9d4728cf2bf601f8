// A warp's accumulators, fragment by fragment, on their way to its staging: where each of a thread's outputs goes.
#pragma once

#include "device/hopper.cuh"
#include "device/swizzle.h"
#include "engines/wgmma/params.h"
#include "engines/wgmma/store/run_store.cuh"
#include "engines/wgmma/store/stage.cuh"
#include "engines/wgmma/store/staging_tables.cuh"
#include "epilogue/apply.cuh"

namespace convt3d {

template <typename T, int kN, int kSets>
class WgmmaFragments {
 protected:
  // `memory`: the warp's staging.
  __device__ __forceinline__ WgmmaFragments(const WgmmaParams<T>& params, const unsigned char* memory)
      : params_(params),
        store_(params.plan.store),
        address_(hopper::shared_address(memory)),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // A pass has both phases of the width, or the two passes that are stored together.
  __device__ __forceinline__ bool paired() const {
    return params_.plan.arrangement.both_widths() || store_.phase_pairs;
  }

  // `first_channel`: of the slab; `channels`: that exist from there on. Images do not share the tile.
  __device__ __forceinline__ void normalise(float (&c)[kSets][kN / 2], int image, int first_channel,
                                            int channels) const {
    ChannelNorm norms[kSets][2];
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = wgmma_row(params_.plan.arrangement, lane_, set, half);
        norms[set][half] = *params_.epilogue.norm.at(image, first_channel + min(row, channels - 1));
      }
    }
    change(c, [&](float value, int set, int half) { return normalised_alone<T>(norms[set][half], value); });
    const float slope = norms[0][0].slope;  // of all channels
    if (slope != 1) change(c, [&](float value, int, int) { return sloped(value, slope); });
  }

  // Fragment j of a thread's channels: two positions of both phases, or of one, are neighbours.
  template <WgmmaStagedOrder kOrder>
  __device__ __forceinline__ void stage_widths(const float (&c)[kSets][kN / 2], int j, uint32_t entry) const {
    const uint32_t row = static_cast<uint32_t>(lane_ / 4 * store_.pitch);
    const uint32_t at = address_ + row + (entry ^ swizzle_flip(row, store_.swizzle));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 4 * j + 2 * half;
      const uint32_t to = at + 8 * half * store_.pitch;
      if constexpr (kOrder == WgmmaStagedOrder::kWidths) {
        stage_two<T>(to, entry, c[0][i], c[0][i + 1]);
      } else if constexpr (kOrder == WgmmaStagedOrder::kWidthSets) {
        stage_four<T>(to, entry, c[0][i], c[1][i], c[0][i + 1], c[1][i + 1]);
      } else if (half == 0) {
        stage_four<T>(to, entry, c[0][i], c[0][i + 2], c[0][i + 1], c[0][i + 3]);
      }
    }
  }

  // Fragment j of a thread's channels, of both phases of the height where they are the sets.
  template <WgmmaStagedOrder kOrder>
  __device__ __forceinline__ void stage_run(const float (&c)[kSets][kN / 2], int j, uint32_t entry) const {
    const uint32_t own = entry ^ run_burst_;  // of this burst
    const uint32_t missing = own >> kWgmmaRunOffsetBits;
    const uint32_t at = (own & ((1u << kWgmmaRunOffsetBits) - 1)) * static_cast<uint32_t>(sizeof(T));
    const int i = 4 * j;
    if constexpr (kOrder == WgmmaStagedOrder::kWidths) {
      stage_outputs<T>(run_lines_[0] + at, missing, {c[0][i], c[0][i + 1]});
      stage_outputs<T>(run_lines_[1] + at, missing, {c[0][i + 2], c[0][i + 3]});
    } else if constexpr (kOrder == WgmmaStagedOrder::kWidthPhases) {
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
        stage_outputs<T>(run_lines_[0] + at + static_cast<uint32_t>(set * store_.as_runs().line_step), missing,
                         {c[set][i], c[set][i + 2], c[set][i + 1], c[set][i + 3]});
      }
    } else {
      stage_outputs<T>(run_lines_[0] + at, missing, {c[0][i], c[1][i], c[0][i + 1], c[1][i + 1]});
      stage_outputs<T>(run_lines_[1] + at, missing, {c[0][i + 2], c[1][i + 2], c[0][i + 3], c[1][i + 3]});
    }
  }

  // Rows r and r + 8 are 8 channels apart or, where rows are paired, one voxel: 8 elements apart in both cases;
  // sets, 16. The threads of an instruction meet in no bank of shared memory where a voxel has 64 bytes or more: of 128
  // by the swizzle, of fewer also because half of them begin with their second column.
  __device__ __forceinline__ void stage_channels(const float (&c)[kSets][kN / 2], int j, uint32_t entry) const {
    const uint32_t next = static_cast<uint32_t>((paired() ? 2 : 1) * store_.pitch);
    const bool turned = kSets == 1 && lane_ % 2 != 0;
    // Where a thread's two columns go.
    const uint32_t first = address_ + entry + (turned ? next : 0);
    const uint32_t second = address_ + entry + (turned ? 0 : next);
    // Where voxels have less than 128 bytes, the swizzle's pattern is the same for both columns.
    const uint32_t flip = swizzle_flip(entry, store_.swizzle);
    const uint32_t second_flip = kSets == 1 ? flip : flip ^ swizzle_flip(next, store_.swizzle);
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float a = c[set][4 * j + 2 * half];
        const float b = c[set][4 * j + 2 * half + 1];
        const uint32_t row = static_cast<uint32_t>(lane_ / 4 * 4 + 32 * half + 64 * set);
        stage_one(first + (row ^ flip), entry, turned ? b : a);
        stage_one(second + (row ^ second_flip), entry, turned ? a : b);
      }
    }
  }
  // Both halves of fragments j and j + 1 are 8 x 8 matrices, transposed on their way; a lane has one column's entry,
  // `first` bytes into its channels.
  __device__ __forceinline__ void stage_matrices(const float (&c)[kN / 2], int j, uint32_t entry,
                                                 uint32_t first) const {
    const uint32_t flip = swizzle_flip(entry, store_.swizzle);
    const uint32_t at = entry == kWgmmaNotStaged
                            ? hopper::shared_address(wgmma_spare())
                            : address_ + entry + (first + static_cast<uint32_t>(lane_ & 8) * 2 ^ flip);
    uint32_t matrix[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int first = 4 * (j + i / 2) + 2 * (i % 2);
      matrix[i] = rounded_pair<T>(c[first], c[first + 1]);
    }
    hopper::store_matrices_transposed(at, matrix);
  }

  const WgmmaParams<T>& params_;
  const WgmmaStore& store_;
  uint32_t address_;
  int lane_;
  // What is known of the burst at hand, of runs.
  uint32_t run_lines_[2];  // where each of a thread's channels begins in shared memory
  uint32_t run_burst_;
};

}  // namespace convt3d
