// What the kernels of forward and input gradient are told, and how a block's shared memory is shared out.
#pragma once

#include "device/width_pair.cuh"
#include "engines/mma/correlation/memory.h"
#include "engines/mma/correlation/plan.h"
#include "engines/mma/tile/loader.cuh"
#include "epilogue/epilogue.h"

namespace convt3d::mma {

// Where the results of a block's boxes go.
template <typename T>
struct StoreParams {
  int64_t batch;
  int32_t images;  // of a box
  int32_t box[3];
  Divisor box_width;
  BoxRows box_rows;
  Divisor boxes[3];     // along each axis
  int32_t residues[3];  // step of the destination
  int32_t size[3];      // of the destination
  Epilogue epilogue;
  T* destination;
  Strides destination_stride;
  bool residues_alike;  // the destination ends behind the last residue of each axis
  bool stores_channels;
  int32_t channel_vector;  // that are one store then: all of a lane's, a word's or one
  bool stores_pairs;       // of 16 bits: two columns are a word of a channel, and positions along the width are words
  bool channels_first;     // of what goes through shared memory: neighbouring threads store neighbouring channels
  bool joins_width;
  bool stages_matrices;    // of 16 bits: eight positions are neighbours in shared memory, and there is room for all
  int32_t row_vector;      // elements of a row that are one aligned store
  int32_t row_length;      // staged elements of a row
  Divisor row_vectors;     // in a row
  Divisor places_at_once;  // pieces of rows that a channel has, as far as there are threads for
  int32_t staging_pitch;   // bytes from a channel to the next
};

// Blocks that share the sums of a tile, those of a box and a share, each with some stages.
struct SplitParams {
  int32_t splits;
  int32_t stages;      // of a split
  int32_t shares;      // a box has a tile of each
  uint32_t* counters;  // of a tile: splits that have left their sums
  float* partial;      // [tile][split][sums of a block]
};

// T: of the source; where it is a WidthPair, the destination has its elements.
template <typename T>
struct CorrelationParams {
  LoadParams<T> load;
  StoreParams<ElementOf<T>> store;
  Residues residues[3];
  Divisor by_residues[2];  // of height and width
  int32_t first_box;       // of a launch
  int32_t end_box;
  int32_t walkers;                             // of each share, or 0
  int32_t first_walker[kMostPhaseBlocks + 1];  // then, of each share of phases
  SplitParams split;
  int32_t k_channels;
  int32_t n_channels;
  int32_t chunks;
  int32_t chunk_steps;
  bool splits;           // an axis, whose taps have a stage each
  Divisor by_stages[3];  // of each axis
  int32_t stages;        // of a phase
  int32_t buffers;
  bool waits_for_source;  // which the kernel before writes
  int32_t source_group;   // channels of the source from a group to the next
  bool only_copies;       // a stage arrives by itself
  int32_t ahead;          // else, stages that are on their way at once
  int32_t table_bytes;
  int32_t raw_bytes;  // of a stage
  int32_t block_phases;
  // What blocks are numbered by.
  Divisor phase_blocks;
  Divisor n_blocks;
  Divisor groups;
  Divisor k_splits;
  SharedLayout layout;
  const unsigned char* weight;  // packed: pack_weight.cuh
  bool weights_stay;
  int32_t slot_steps;
  int32_t slots;
};

// A block among those of a launch. Phases come first, then channels: blocks that are neighbours read the same source.
// Where phases have walkers of their own, all blocks are there at once.
struct BlockPlace {
  int32_t phase_block;
  int32_t n_block;
  int32_t group;
  int32_t split;
  int32_t walker;   // among those of its share
  int32_t walkers;  // of its share

  template <typename T>
  __device__ __forceinline__ explicit BlockPlace(const CorrelationParams<T>& params) {
    auto rest = static_cast<int32_t>(blockIdx.x);
    const bool alike = params.walkers > 0;
    phase_block = alike ? params.phase_blocks.take(rest) : 0;
    n_block = params.n_blocks.take(rest);
    group = params.groups.take(rest);
    split = params.k_splits.take(rest);
    walkers = params.walkers;
    if (!alike) {
      while (rest >= params.first_walker[phase_block + 1]) ++phase_block;
      rest -= params.first_walker[phase_block];
      walkers = params.first_walker[phase_block + 1] - params.first_walker[phase_block];
    }
    walker = rest;
  }
};

// What a block computes of each of its boxes; in shared memory, as few registers are left.
struct BlockShare {
  int64_t first_channel;        // of the destination
  int64_t source_channel;       // first of the group
  const unsigned char* weight;  // of the first step of K
  int32_t channels;             // of the destination, that exist
  int32_t number;               // of the share
  int32_t first_phase;
  int32_t first_box;
  int32_t walkers;  // which take turns at the boxes
  int32_t steps;    // of K, of all phases
  int32_t split;
  bool adds_splits;  // as the last one to leave its sums
};

static_assert(sizeof(BlockShare) <= kShareBytes);

// Stages of a phase that a block has.
struct StageRange {
  int32_t first;
  int32_t end;
};

template <typename T>
__device__ __forceinline__ StageRange stages_of(const CorrelationParams<T>& params, const BlockShare& share) {
  const int32_t first = share.split * params.split.stages;
  return {first, min(first + params.split.stages, params.stages)};
}

// A box of positions.
struct BlockBox {
  int32_t image;     // first
  int32_t first[3];  // positions u
};

template <typename T>
__device__ __forceinline__ BlockBox box_at(const StoreParams<T>& params, int32_t number) {
  BlockBox box;
#pragma unroll
  for (int i = 2; i >= 0; --i) box.first[i] = params.boxes[i].take(number) * params.box[i];
  box.image = number * params.images;
  return box;
}

// The phase that is at work.
struct Residue {
  int32_t at[3];
};

// The residues of a phase, of which the width's come first.
template <typename T>
__device__ __forceinline__ Residue residue_of(const CorrelationParams<T>& params, int32_t phase) {
  Residue residue;
  residue.at[2] = params.by_residues[1].take(phase);
  residue.at[1] = params.by_residues[0].take(phase);
  residue.at[0] = phase;
  return residue;
}

// Steps of K of a phase, for one chunk.
template <typename T>
__device__ __forceinline__ int32_t steps_of(const CorrelationParams<T>& params, const Residue& residue) {
  int32_t steps = params.chunk_steps;
#pragma unroll
  for (int i = 0; i < 3; ++i) steps *= params.residues[i].tap_count[residue.at[i]];
  return steps;
}

// Steps of K of a phase, of all stages before this one.
template <typename T>
__device__ __forceinline__ int32_t steps_before(const CorrelationParams<T>& params, const Residue& residue,
                                                int32_t stage) {
  int32_t taps = 0;
  int32_t of_component = 1;
#pragma unroll
  for (int i = 2; i >= 0; --i) {
    const int32_t component = params.by_stages[i].take(stage);
    const int32_t count = params.residues[i].tap_count[residue.at[i]];
    taps = component < count ? component * of_component + taps : count * of_component;
    of_component *= count;
  }
  return (stage * of_component + taps) * params.chunk_steps;
}

}  // namespace convt3d::mma
