// Weight [C_in, C_out/groups, kD, kH, kW] -> fragments of B in the order in which blocks read them:
// [group][block of channels][phase][chunk][tap of the phase][step of K][warp's channels][term][piece][lane], 16 bytes
// each: for two fragments, neighbours along N, the words lane%4 and lane%4 + 4 of K's 32 bytes in column lane/4 or, for
// a tile of channel rows, the words 2 * (lane%4) and the next. Zeros past the channels.
//
// A block packs a tile: a step of K, the neighbouring channels that the lanes of some pieces share, and some taps. It
// reads along whichever of these are neighbours in the weight, and writes pieces of all lanes one after another.
#pragma once

#include <algorithm>

#include "core/integer.h"
#include "core/weight_order.h"
#include "device/matrix_element.cuh"
#include "device/overlap.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/two_terms.cuh"
#include "engines/mma/correlation_plan.h"

namespace convt3d::mma {

constexpr int kPackThreads = 256;
constexpr int kPackChannels = 32;  // most of a tile
constexpr int kPackTaps = 16;      // ...

// An axis of a tile. Axes are numbered from the one whose neighbours are nearest in the weight.
enum class PackAxis : int { kK, kN, kTap };

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
  bool neighbours;  // a lane has two words beside each other
  int32_t tile_n;   // channels of a tile
  int32_t tile_taps;
  int32_t all_taps;
  int64_t tiles;  // below 2^31
  PackAxis order[2];
  Divisor extent[2];  // of these two
  Divisor taps[3];
  Divisor taps_tiles;
  Divisor n_tiles;  // of a warp's channels
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

// How a tile is numbered.
template <typename T>
void share_packing(PackWeightParams<T>& params) {
  params.tile_n = std::min(params.warp_n, 8 * std::max(2, params.joined));
  params.all_taps = params.residues[0].taps * params.residues[1].taps * params.residues[2].taps;
  params.tile_taps = std::min(params.all_taps, kPackTaps);
  const int64_t n_tiles = params.warp_n / params.tile_n;
  const int64_t taps_tiles = ceil_div(params.all_taps, params.tile_taps);
  params.tiles = taps_tiles * n_tiles * params.warps.value * params.chunk_steps * params.chunks * params.n_blocks;
  params.taps_tiles = make_divisor(taps_tiles);
  params.n_tiles = make_divisor(n_tiles);
  struct Axis {
    PackAxis axis;
    int64_t stride;
    int64_t extent;
  };
  Axis axes[3] = {{PackAxis::kK, params.stride.k, kStepBytes / static_cast<int32_t>(sizeof(T))},
                  {PackAxis::kN, params.stride.n, params.tile_n},
                  {PackAxis::kTap, params.stride.tap[2], params.tile_taps}};
  std::stable_sort(axes, axes + 3, [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  for (int i = 0; i < 2; ++i) {
    params.order[i] = axes[i].axis;
    params.extent[i] = make_divisor(axes[i].extent);
  }
}

template <typename T>
__global__ void __launch_bounds__(kPackThreads)
    convt3d_mma_pack_weight(const __grid_constant__ PackWeightParams<T> params) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // elsewhere an empty body, which the plan never chooses
  begin_dependents();
  constexpr int kInWord = 4 / static_cast<int>(sizeof(T));
  constexpr int kInStep = kStepBytes / static_cast<int>(sizeof(T));
  constexpr int kPitch = kInStep + kInWord;  // an odd number of words
  struct Shared {
    alignas(16) T values[kPackTaps * kPackChannels * kPitch];
    int64_t from[kPackTaps];  // of a tap, in the weight
    int64_t to[kPackTaps];    // ... its step, in the packed weight
  };
  auto& shared = static_shared_memory<Shared>();
  const auto thread = static_cast<int32_t>(threadIdx.x);
  for (int64_t i = int64_t{blockIdx.x} * kPackThreads + thread; i < params.counter_count;
       i += int64_t{gridDim.x} * kPackThreads) {
    params.counters[i] = 0;
  }
  for (int64_t tile = blockIdx.x; tile < params.tiles; tile += gridDim.x) {
    auto rest = static_cast<int32_t>(tile);
    const int32_t first_tap = params.taps_tiles.take(rest) * params.tile_taps;
    const int32_t warp_n_tile = params.n_tiles.take(rest);
    const int32_t warp = params.warps.take(rest);
    const int32_t k_step = params.steps_of_chunk.take(rest);
    const int32_t chunk = params.chunks_of_block.take(rest);
    const int32_t n_block = params.blocks_of_group.take(rest);
    const int64_t group = rest;
    const int32_t taps = min(params.tile_taps, params.all_taps - first_tap);

    if (thread < taps) {
      const Residues(&residues)[3] = params.residues;
      int32_t tap[3];
      int32_t of_tap = first_tap + thread;
#pragma unroll
      for (int i = 2; i >= 0; --i) tap[i] = params.taps[i].take(of_tap);
      const int32_t e[3] = {params.residue_of[0][tap[0]], params.residue_of[1][tap[1]], params.residue_of[2][tap[2]]};
      const int32_t j[3] = {params.number_of[0][tap[0]], params.number_of[1][tap[1]], params.number_of[2][tap[2]]};
      const int32_t counts[3] = {residues[0].tap_count[e[0]], residues[1].tap_count[e[1]], residues[2].tap_count[e[2]]};
      const int64_t number = (int64_t{j[0]} * counts[1] + j[1]) * counts[2] + j[2];
      const int64_t phase_taps = int64_t{counts[0]} * counts[1] * counts[2];
      const int64_t k_steps = int64_t{params.chunks} * params.chunk_steps;
      shared.from[thread] =
          tap[0] * params.stride.tap[0] + tap[1] * params.stride.tap[1] + tap[2] * params.stride.tap[2];
      shared.to[thread] =
          ((group * params.n_blocks + n_block) * params.all_taps + taps_before(residues, e[0], e[1], e[2])) * k_steps +
          (chunk * phase_taps + number) * params.chunk_steps + k_step;
    }
    __syncthreads();

    const T* const weight = params.weight + group * params.stride.group;
    const int32_t first_k = (chunk * params.chunk_steps + k_step) * kInStep;
    const int32_t first_n = n_block * params.block_n + warp * params.warp_n + warp_n_tile * params.tile_n;
    const int32_t count = kInStep * params.tile_n * params.tile_taps;
#pragma unroll 4
    for (int32_t i = thread; i < count; i += kPackThreads) {
      int32_t at[3];
      int32_t number = i;
      const int32_t a = params.extent[0].take(number);
      const int32_t b = params.extent[1].take(number);
#pragma unroll
      for (int axis = 0; axis < 3; ++axis) {
        at[axis] = params.order[0] == PackAxis{axis} ? a : params.order[1] == PackAxis{axis} ? b : number;
      }
      const int32_t k = first_k + at[0];
      const int32_t n = first_n + at[1];
      const int32_t part = k / params.k_part;
      // Those of a part after the first continue along input channels alone.
      const bool exists = at[2] < taps && k < params.k_channels && n < params.n_channels && part == n / params.n_part;
      shared.values[(at[2] * params.tile_n + at[1]) * kPitch + at[0]] =
          exists ? __ldg(weight + shared.from[at[2]] + k * params.stride.k + n * params.stride.n -
                         part * params.part_stride)
                 : from_accumulator<T>(Accumulator<T>(0));
    }
    __syncthreads();

    const int32_t joint = params.warp_n > 8 ? 2 : 1;  // fragments of a lane's piece
    const int32_t tile_pieces = params.tile_n / (8 * joint);
    const int64_t step_words = int64_t{params.block_n} * params.terms * (kStepBytes / 4);
    for (int32_t i = thread; i < taps * tile_pieces * 32; i += kPackThreads) {
      const int32_t lane = i % 32;
      const int32_t tap = i / 32 / tile_pieces;
      const int32_t piece = i / 32 - tap * tile_pieces;
      uint32_t words[2][4] = {};  // of each term
#pragma unroll
      for (int32_t f = 0; f < 2; ++f) {
        if (f >= joint) continue;
        const int32_t fragment = piece * joint + f;
        const int32_t column = lane / 4;
        const int32_t n = params.joined > 0 ? first_channel_of(fragment, column / 2, params.joined) + column % 2
                                            : fragment * 8 + column;
#pragma unroll
        for (int32_t half = 0; half < 2; ++half) {
          const int32_t in_step = params.neighbours ? lane % 4 * 2 + half : lane % 4 + 4 * half;
          const T* const values = shared.values + (tap * params.tile_n + n) * kPitch + in_step * kInWord;
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
      const int32_t pieces = params.warp_n / (8 * joint);
#pragma unroll
      for (int32_t term = 0; term < 2; ++term) {
        if (term >= params.terms) continue;
        const int64_t of_warp = (int64_t{warp} * params.terms + term) * pieces + warp_n_tile * tile_pieces + piece;
        uint32_t* const to = params.packed + shared.to[tap] * step_words + (of_warp * 32 + lane) * 2 * joint;
        if (joint == 2) {
          *reinterpret_cast<uint4*>(to) = uint4{words[term][0], words[term][1], words[term][2], words[term][3]};
        } else {
          *reinterpret_cast<uint2*>(to) = uint2{words[term][0], words[term][1]};
        }
      }
    }
    __syncthreads();
  }
#endif
}

}  // namespace convt3d::mma
