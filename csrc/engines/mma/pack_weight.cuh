// Weight [C_in, C_out/groups, kD, kH, kW] -> fragments of B in the order in which blocks read them:
// [group][block of channels][phase][chunk][tap of the phase][step of K][warp's channels][term][piece][lane], 16 bytes
// each: for two fragments, neighbours along N, the words lane%4 and lane%4 + 4 of K's 32 bytes in column lane/4 or, for
// a tile of channel rows, the words 2 * (lane%4) and the next. Zeros past the channels.
#pragma once

#include "core/weight_order.h"
#include "device/matrix_element.cuh"
#include "device/overlap.cuh"
#include "device/two_terms.cuh"
#include "engines/mma/correlation_plan.h"

namespace convt3d::mma {

template <typename T>
struct PackWeightParams {
  const T* weight;
  WeightStrides stride;
  Residues residues[3];
  int16_t residue_of[3][kMostAxisTaps];  // the residue that a tap belongs to
  int16_t number_of[3][kMostAxisTaps];   // ... and its number among that one's taps
  int32_t k_channels;
  int32_t n_channels;
  // Of a group of the problem, several of which are one here: between them the weight is zero.
  int32_t k_part;
  int32_t n_part;
  int64_t part_stride;  // in the weight, of a part's output channels, which begin anew in each
  int32_t n_blocks;
  int32_t chunks;
  int32_t chunk_steps;
  int32_t warp_n;
  int32_t block_n;
  int32_t joined;  // fragments that share a lane's channels; 0: a fragment's columns are its channels
  int32_t terms;
  bool rounds;
  bool neighbours;   // a lane has two words beside each other
  int64_t elements;  // pieces of words of one term, below 2^31
  Divisor taps[3];
  Divisor pieces;  // of a warp's channels
  Divisor warps;
  Divisor steps_of_chunk;
  Divisor chunks_of_block;
  Divisor blocks_of_group;
  uint32_t* packed;
  uint32_t* counters;  // of the kernel that follows; they begin at zero
  int32_t counter_count;
};

// The first step of a phase, in its block of channels.
CONVT3D_HOST_DEVICE inline int64_t taps_before(const Residues (&residues)[3], int32_t d, int32_t h, int32_t w) {
  const int64_t of_d = int64_t{residues[0].taps_before[d]} * residues[1].taps * residues[2].taps;
  const int64_t of_h = int64_t{residues[0].tap_count[d]} * residues[1].taps_before[h] * residues[2].taps;
  return of_d + of_h + int64_t{residues[0].tap_count[d]} * residues[1].tap_count[h] * residues[2].taps_before[w];
}

// A thread packs the words of a lane for one fragment, or two, of one step: neighbouring threads have neighbouring taps
// of the weight.
template <typename T>
__global__ void convt3d_mma_pack_weight(const __grid_constant__ PackWeightParams<T> params) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // elsewhere an empty body, which the plan never chooses
  begin_dependents();
  constexpr int kInWord = 4 / static_cast<int>(sizeof(T));
  constexpr int kInStep = kStepBytes / static_cast<int>(sizeof(T));
  const Residues(&residues)[3] = params.residues;
  const int32_t fragments = params.warp_n / 8;
  const int32_t joint = fragments > 1 ? 2 : 1;  // fragments of a lane's piece
  const auto pieces = static_cast<int32_t>(params.pieces.value);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t index = first; index < params.counter_count; index += step) params.counters[index] = 0;
  for (int64_t index = first; index < params.elements; index += step) {
    auto rest = static_cast<int32_t>(index);
    int32_t tap[3];
#pragma unroll
    for (int i = 2; i >= 0; --i) tap[i] = params.taps[i].take(rest);
    const int32_t lane = rest % 32;
    rest /= 32;
    const int32_t piece = params.pieces.take(rest);
    const int32_t warp = params.warps.take(rest);
    const int32_t k_step = params.steps_of_chunk.take(rest);
    const int32_t chunk = params.chunks_of_block.take(rest);
    const int32_t n_block = params.blocks_of_group.take(rest);
    const int64_t group = rest;

    const int32_t e[3] = {params.residue_of[0][tap[0]], params.residue_of[1][tap[1]], params.residue_of[2][tap[2]]};
    const int32_t j[3] = {params.number_of[0][tap[0]], params.number_of[1][tap[1]], params.number_of[2][tap[2]]};
    const int32_t counts[3] = {residues[0].tap_count[e[0]], residues[1].tap_count[e[1]], residues[2].tap_count[e[2]]};
    const int64_t number = (int64_t{j[0]} * counts[1] + j[1]) * counts[2] + j[2];
    const int64_t phase_taps = int64_t{counts[0]} * counts[1] * counts[2];
    const int64_t all_taps = int64_t{residues[0].taps} * residues[1].taps * residues[2].taps;
    // In steps.
    int64_t place = (group * params.n_blocks + n_block) * all_taps * params.chunks * params.chunk_steps;
    place += taps_before(residues, e[0], e[1], e[2]) * params.chunks * params.chunk_steps;
    place += (chunk * phase_taps + number) * params.chunk_steps + k_step;

    const T* const from = params.weight + group * params.stride.group + tap[0] * params.stride.tap[0] +
                          tap[1] * params.stride.tap[1] + tap[2] * params.stride.tap[2];
    uint32_t words[2][4] = {};  // of each term
#pragma unroll
    for (int32_t f = 0; f < 2; ++f) {
      if (f >= joint) continue;
      const int32_t fragment = piece * joint + f;
      const int32_t column = lane / 4;
      const int32_t channel = params.joined > 0 ? first_channel_of(fragment, column / 2, params.joined) + column % 2
                                                : fragment * 8 + column;
      const int32_t n = n_block * params.block_n + warp * params.warp_n + channel;
#pragma unroll
      for (int32_t half = 0; half < 2; ++half) {
        const int32_t in_step = params.neighbours ? lane % 4 * 2 + half : lane % 4 + 4 * half;
        const int32_t k = (chunk * params.chunk_steps + k_step) * kInStep + in_step * kInWord;
        alignas(4) T values[kInWord];
#pragma unroll
        for (int32_t i = 0; i < kInWord; ++i) {
          const bool exists = k + i < params.k_channels && n < params.n_channels;
          // Those of a part after the first continue along input channels alone.
          const int32_t part = (k + i) / params.k_part;
          values[i] = exists && part == n / params.n_part
                          ? __ldg(from + (k + i) * params.stride.k + n * params.stride.n - part * params.part_stride)
                          : from_accumulator<T>(Accumulator<T>(0));
        }
        uint32_t word = *reinterpret_cast<const uint32_t*>(values);
        if constexpr (sizeof(T) == 4) {
          if (params.terms == 2) {
            const TwoTerms terms = two_terms(to_accumulator(values[0]));
            word = terms.high;
            words[1][f * 2 + half] = rounded_to_tf32(__uint_as_float(terms.low));
          } else if (params.rounds) {
            word = rounded_to_tf32(to_accumulator(values[0]));
          }
        }
        words[0][f * 2 + half] = word;
      }
    }
    const int32_t piece_words = 2 * joint;
    const int64_t step_words = int64_t{params.block_n} * params.terms * (kStepBytes / 4);
#pragma unroll
    for (int32_t term = 0; term < 2; ++term) {
      if (term >= params.terms) continue;
      const int64_t in_step = ((int64_t{warp} * params.terms + term) * pieces + piece) * 32 + lane;
      uint32_t* const to = params.packed + place * step_words + in_step * piece_words;
      if (joint == 2) {
        *reinterpret_cast<uint4*>(to) = uint4{words[term][0], words[term][1], words[term][2], words[term][3]};
      } else {
        *reinterpret_cast<uint2*>(to) = uint2{words[term][0], words[term][1]};
      }
    }
  }
#endif
}

}  // namespace convt3d::mma
