// What the kernels of forward and input gradient are told, and how a block's shared memory is shared out.
#pragma once

#include "engines/mma/correlation_memory.h"
#include "engines/mma/correlation_plan.h"
#include "engines/mma/load.cuh"
#include "epilogue/epilogue.h"

namespace convt3d::mma {

template <typename T>
struct CorrelationParams {
  TileParams<T> tile;
  Residues residues[3];
  int32_t box[3];
  Divisor box_width;
  BoxRows box_rows;
  int64_t boxes[4];
  int64_t groups;
  int32_t k_channels;
  int32_t n_channels;
  int32_t n_blocks;
  int32_t chunks;
  int32_t chunk_steps;
  int32_t buffers;
  int32_t block_phases;
  int32_t phase_blocks;
  int32_t table_steps;
  const unsigned char* weight;  // packed: pack_weight.cuh
  Epilogue epilogue;
  T* destination;
  Strides destination_stride;
  bool stores_channels;
  bool channels_first;  // of what goes through shared memory: neighbouring threads store neighbouring channels
  bool joins_width;
  int32_t row_vector;   // elements of a row that are one aligned store
  int32_t row_length;   // staged elements of a row
  Divisor row_vectors;  // in a row
  Divisor rows;
  int32_t staging_pitch;  // bytes from a channel to the next
};

// What a block computes; in shared memory, as few registers are left.
struct BlockShare {
  int64_t image;           // first
  int32_t first[3];        // positions u
  int32_t channels;        // of the destination, that exist
  int64_t first_channel;   // of the destination
  int64_t source_channel;  // first of the group
};

static_assert(sizeof(BlockShare) <= kShareBytes);

// The phase that is at work.
struct Residue {
  int32_t at[3];
};

}  // namespace convt3d::mma
