// Weight [C_in, C_out/groups, kD, kH, kW] -> fragments of B in the order in which blocks read them:
// [group][block of channels][phase][chunk][tap of the phase][step of K][warp's channels][term][piece][lane], 16 bytes
// each: for two fragments, neighbours along N, the words lane%4 and lane%4 + 4 of K's 32 bytes in column lane/4 or, for
// a tile of channel rows, the words 2 * (lane%4) and the next. Zeros past the channels. Of width pairs a word is one
// channel, and its halves are two taps.
#pragma once

#include "core/weight_order.h"
#include "device/matrix_element.cuh"
#include "device/overlap.cuh"
#include "device/two_terms.cuh"
#include "engines/mma/correlation/plan.h"

namespace convt3d::mma {

template <typename T>
struct PackWeightParams {
  const T* weight;
  WeightStrides stride;
  Residues residues[3];
  int16_t residue_of[3][kMostAxisTaps];  // the residue that a tap belongs to
  int16_t number_of[3][kMostAxisTaps];   // the tap's number among those of its residue
  int32_t k_channels;
  int32_t n_channels;
  // Of a group of the problem, several of which are one here: between them the weight is zero.
  bool parts;
  Divisor k_part;
  Divisor n_part;
  int64_t part_stride;  // in the weight, of a part's output channels, which begin anew in each
  int32_t n_blocks;
  int32_t chunks;
  int32_t chunk_steps;
  int32_t warp_n;
  int32_t block_n;
  int32_t joined;  // fragments that share a lane's channels; 0: a fragment's columns are its channels
  int32_t terms;
  bool rounds_to_tf32;
  bool neighbours;      // a lane has two words beside each other
  WidthPairs pairs;     // of the source or, where a channel has two columns, of the destination
  int32_t column_bits;  // 1 where a channel of N has two columns, else 0
  bool lanes_first;     // neighbouring threads are lanes, else taps: whichever are closer in the weight
  int64_t elements;     // pieces of words of one term, below 2^31
  Divisor taps[3];
  Divisor pieces;  // of a warp's channels
  Divisor warps;
  Divisor steps_of_chunk;
  Divisor chunks_of_block;
  Divisor blocks_of_group;
  uint32_t* packed;
  uint32_t* counters;  // of the kernel that follows; they begin at zero
  int32_t counter_count;
  bool beside;  // CorrelationPlan::packs_beside
};

// The first step of a phase, in its block of channels.
CONVT3D_HOST_DEVICE inline int64_t taps_before(const Residues (&residues)[3], int32_t d, int32_t h, int32_t w) {
  const int64_t of_d = int64_t{residues[0].taps_before[d]} * residues[1].taps * residues[2].taps;
  const int64_t of_h = int64_t{residues[0].tap_count[d]} * residues[1].taps_before[h] * residues[2].taps;
  return of_d + of_h + int64_t{residues[0].tap_count[d]} * residues[1].tap_count[h] * residues[2].taps_before[w];
}

// What a lane has of a step, for one fragment or two: word `half` of fragment f, and of it element i.
template <typename T>
struct PackedElements {
  static constexpr int kInWord = 4 / static_cast<int>(sizeof(T));

  const T* first;  // of the first word of the first fragment
  int32_t k;       // its channels
  int32_t n;
  int32_t tap;         // along the width, of width pairs: its first half's
  int32_t half_k;      // from one half to the other, in channels
  int32_t fragment_n;  // from one fragment to the other, in channels

  template <bool kParts>
  __device__ __forceinline__ T at(const PackWeightParams<T>& params, int f, int half, int i) const {
    const bool pairs = params.pairs.exist && params.column_bits == 0;
    const int32_t in_k = half * half_k + (pairs ? 0 : i);
    const int32_t this_k = k + in_k;
    const int32_t this_n = n + f * fragment_n;
    const T* from = first + in_k * params.stride.k + (f * fragment_n >> params.column_bits) * params.stride.n;
    bool exists = this_k < params.k_channels && this_n < params.n_channels;
    if (params.pairs.exist) {
      const int32_t second = pairs ? i : 0;
      exists = exists && tap + second >= 0 && tap + second < params.pairs.taps;
      from += second * params.stride.tap[2];
    }
    if constexpr (kParts) {
      // Those of a part after the first continue along input channels alone.
      const int32_t part = params.k_part.quotient(this_k);
      exists = exists && part == params.n_part.quotient(this_n);
      from -= part * params.part_stride;
    }
    const T value = __ldg(exists ? from : params.weight);  // no conditional load: see Piece in tile/loader.cuh
    return exists ? value : T{};
  }

  template <bool kParts>
  __device__ __forceinline__ void read(const PackWeightParams<T>& params, int fragments, T (&to)[2][2][kInWord]) const {
#pragma unroll
    for (int f = 0; f < 2; ++f) {
      if (f >= fragments) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < kInWord; ++i) to[f][half][i] = at<kParts>(params, f, half, i);
      }
    }
  }
};

// A thread packs the words of a lane for one fragment, or two, of one step.
template <typename T>
__global__ void convt3d_mma_pack_weight(const __grid_constant__ PackWeightParams<T> params) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // elsewhere an empty body, which the plan never chooses
  begin_dependents();
  constexpr int kInWord = 4 / static_cast<int>(sizeof(T));
  const int32_t in_word = params.pairs.exist && params.column_bits == 0 ? 1 : kInWord;  // channels
  const int32_t in_step = kStepBytes / 4 * in_word;
  const Residues(&residues)[3] = params.residues;
  const int32_t fragments = params.warp_n / 8;
  const int32_t joint = fragments > 1 ? 2 : 1;  // fragments of a lane's piece
  const auto pieces = static_cast<int32_t>(params.pieces.value);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (int64_t index = first; index < params.counter_count; index += step) params.counters[index] = 0;
#pragma unroll 1
  for (int64_t index = first; index < params.elements; index += step) {
    auto rest = static_cast<int32_t>(index);
    int32_t lane = 0;
    const auto take_lane = [&] {
      lane = rest % 32;
      rest /= 32;
    };
    if (params.lanes_first) take_lane();
    int32_t tap[3];
#pragma unroll
    for (int i = 2; i >= 0; --i) tap[i] = params.taps[i].take(rest);
    if (!params.lanes_first) take_lane();
    const int32_t piece = params.pieces.take(rest);
    const int32_t warp = params.warps.take(rest);
    const int32_t k_step = params.steps_of_chunk.take(rest);
    const int32_t chunk = params.chunks_of_block.take(rest);
    const int32_t n_block = params.blocks_of_group.take(rest);
    const int32_t group = rest;

    const int32_t e[3] = {params.residue_of[0][tap[0]], params.residue_of[1][tap[1]], params.residue_of[2][tap[2]]};
    const int32_t j[3] = {params.number_of[0][tap[0]], params.number_of[1][tap[1]], params.number_of[2][tap[2]]};
    const int32_t counts[3] = {residues[0].tap_count[e[0]], residues[1].tap_count[e[1]], residues[2].tap_count[e[2]]};
    const int32_t number = (j[0] * counts[1] + j[1]) * counts[2] + j[2];
    const int32_t phase_taps = counts[0] * counts[1] * counts[2];
    const int32_t all_taps = residues[0].taps * residues[1].taps * residues[2].taps;
    // In steps, of which there are fewer than pieces.
    int32_t place = (group * params.n_blocks + n_block) * all_taps * params.chunks * params.chunk_steps;
    place += static_cast<int32_t>(taps_before(residues, e[0], e[1], e[2])) * params.chunks * params.chunk_steps;
    place += (chunk * phase_taps + number) * params.chunk_steps + k_step;

    const int32_t column = lane / 4;
    const int32_t channel = params.joined > 0 ? first_channel_of(piece * joint, column / 2, params.joined) + column % 2
                                              : piece * joint * 8 + column;
    PackedElements<T> elements{};
    elements.k = (chunk * params.chunk_steps + k_step) * in_step + lane % 4 * (params.neighbours ? 2 : 1) * in_word;
    elements.n = n_block * params.block_n + warp * params.warp_n + channel;
    elements.tap =
        params.pairs.exist ? 2 * tap[2] + params.pairs.first_tap + (elements.n & params.column_bits) : tap[2];
    elements.half_k = (params.neighbours ? 1 : 4) * in_word;
    elements.fragment_n = params.joined > 1 ? 2 : 8;
    elements.first = params.weight + group * params.stride.group + tap[0] * params.stride.tap[0] +
                     tap[1] * params.stride.tap[1] + elements.tap * params.stride.tap[2] +
                     elements.k * params.stride.k + (elements.n >> params.column_bits) * params.stride.n;
    alignas(4) T values[2][2][kInWord];
    if (params.parts) {
      elements.template read<true>(params, joint, values);
    } else {
      elements.template read<false>(params, joint, values);
    }
    uint32_t words[2][4] = {};  // of each term
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if (w >= 2 * joint) continue;
      const T(&value)[kInWord] = values[w / 2][w % 2];
      uint32_t word = *reinterpret_cast<const uint32_t*>(value);
      if constexpr (sizeof(T) == 4) {
        if (params.terms == 2) {
          const TwoTerms terms = two_terms(to_accumulator(value[0]));
          word = terms.high;
          words[1][w] = rounded_to_tf32(__uint_as_float(terms.low));
        } else if (params.rounds_to_tf32) {
          word = rounded_to_tf32(to_accumulator(value[0]));
        }
      }
      words[0][w] = word;
    }
    const int32_t piece_words = 2 * joint;
    const int32_t step_words = params.block_n * params.terms * (kStepBytes / 4);
#pragma unroll
    for (int32_t term = 0; term < 2; ++term) {
      if (term >= params.terms) continue;
      const int32_t in_block = ((warp * params.terms + term) * pieces + piece) * 32 + lane;
      uint32_t* const to = params.packed + int64_t{place} * step_words + in_block * piece_words;
      if (joint == 2) {
        *reinterpret_cast<uint4*>(to) = uint4{words[term][0], words[term][1], words[term][2], words[term][3]};
      } else {
        *reinterpret_cast<uint2*>(to) = uint2{words[term][0], words[term][1]};
      }
    }
  }
  if (params.beside) wait_for_kernel_before();  // which ends first, as what follows waits for this kernel alone
#endif
}

}  // namespace convt3d::mma
