// How warps read rows (tap, output channel) of a staged tile of grad_output: a fragment is two eights of rows, each of
// which reads the tile at a shift of its own, at sixteen positions or eight words.
#pragma once

#include "device/matrix_element.cuh"
#include "device/ptx/matrices.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/ptx/threads.cuh"
#include "device/width_pair.cuh"
#include "engines/mma/weight_grad/plan.h"

namespace convt3d::mma {

// An entry of the table of positions: bytes from the first position's row to a position's, in both tiles.
struct PositionEntry {
  uint32_t grad;
  uint32_t input;
};

// Bytes from a channel to the next, in both tiles.
struct GradChannels {
  int32_t grad;
  int32_t input;
};

// How a word of each of two positions becomes a word of each of two taps. `swapped`: which position's word a lane reads
// first; `taps`: which bytes of both words make a tap's. Where positions are an even number of words apart, lanes of
// every other channel read the second position's word first, so that all 32 have banks of their own.
struct PairReads {
  int32_t swapped;
  uint32_t taps[2];

  __device__ __forceinline__ static PairReads of_lane(int32_t step, int32_t lane) {
    if (step % 2 != 0) return {0, {0x3210, 0x5432}};  // neighbours: a tap's positions are a word, or across two
    if (lane / 4 % 2 != 0) return {1, {0x1054, 0x3276}};
    return {0, {0x5410, 0x7632}};
  }

  // Turns words of two positions into words of two taps.
  __device__ __forceinline__ void part_taps(uint32_t (&words)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t first = words[i];
      words[i] = __byte_perm(first, words[i + 1], taps[0]);
      words[i + 1] = __byte_perm(first, words[i + 1], taps[1]);
    }
  }
};

// Where a lane reads a fragment's rows, from a position's row on.
template <typename T>
struct FragmentOffsets {
  static constexpr bool kWords = sizeof(T) == 4;  // read word by word, else by whole matrices
  uint32_t of[kWords ? 2 : 1];

  // offset_of(i): bytes from a position's row in the tile of grad_output to where eight i of the fragment reads.
  template <typename OffsetOf>
  __device__ __forceinline__ void set(int32_t lane, int32_t channel_bytes, [[maybe_unused]] const PairReads& pairs,
                                      OffsetOf&& offset_of) {
    if constexpr (kWords) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        of[i] = offset_of(kIsPaired<T> ? i ^ pairs.swapped : i) + static_cast<uint32_t>(lane / 4 * channel_bytes);
    } else {
      of[0] = offset_of(lane / 8 % 2);
    }
  }
};

// Bytes from a step's first entry to those whose rows a lane names in both operands' matrices of 16 bits.
__device__ __forceinline__ PositionEntry matrix_entries(int32_t lane) {
  return {static_cast<uint32_t>(lane / 16 * 8 + lane % 8) * uint32_t{sizeof(PositionEntry)},
          static_cast<uint32_t>(lane % 16) * uint32_t{sizeof(PositionEntry)} + 4};
}

// Eight positions of 32-bit channels; a lane has those of two entries beside each other: of rows of channels two
// neighbours, so that those of four lanes are an even number of rows apart, in banks of their own; of channel rows two
// that are four apart, so that four lanes have neighbours.
struct PositionWords {
  uint32_t grad[2];
  uint32_t input[2];

  // Bytes from the eight's first entry to the lane's two.
  __device__ __forceinline__ static uint32_t of_lane(int32_t lane) {
    return static_cast<uint32_t>(lane % 4) * 2 * sizeof(PositionEntry);
  }
  __device__ __forceinline__ PositionWords(const uint4& entries, uint32_t to_grad, uint32_t to_input)
      : grad{to_grad + entries.x, to_grad + entries.z}, input{to_input + entries.y, to_input + entries.w} {}
  __device__ __forceinline__ PositionWords(uint32_t entries, uint32_t to_grad, uint32_t to_input, int32_t lane)
      : PositionWords(hopper::load_shared<uint4>(entries + of_lane(lane)), to_grad, to_input) {}
  // Reads a fragment: both eights at both entries.
  __device__ __forceinline__ void load_rows(const uint32_t (&offset)[2], uint32_t (&a)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = hopper::load_shared<uint32_t>(grad[i / 2] + offset[i % 2]);
  }
};

}  // namespace convt3d::mma
