// A block's shared memory.
#pragma once

#include "engines/mma/correlation_plan.h"

namespace convt3d::mma {

constexpr int32_t kShareBytes = 48;

// Byte offsets.
struct SharedLayout {
  int32_t share;        // the block's
  int32_t offsets;      // int64: where the destination has each position, or each row
  int32_t steps;        // int32: where each step of K reads, from a position's row on
  int32_t coordinates;  // int32: of the staged rows
  int32_t staging;      // of rows of the destination
  int32_t tiles;
  int64_t bytes;

  CONVT3D_HOST_DEVICE SharedLayout(int32_t positions, int32_t table_steps, const StagedTile& tile, int32_t buffers,
                                   int32_t staging_bytes) {
    share = 0;
    offsets = share + kShareBytes;
    steps = offsets + 8 * positions;
    coordinates = steps + 4 * table_steps;
    staging = (coordinates + 4 * tile.coordinates() + 15) / 16 * 16;
    tiles = staging + staging_bytes;
    bytes = tiles + static_cast<int64_t>(buffers) * tile.bytes();
  }
};

// Elements of a staged row of the destination: those of all residues, or of one.
CONVT3D_HOST_DEVICE constexpr int32_t row_length(int32_t box_width, int32_t residues, bool joins) {
  return joins ? box_width * residues : box_width;
}

// Bytes from a channel's staged rows to the next's: whole pieces, an odd number of them, so that the channels of
// neighbouring lanes are in banks of their own.
CONVT3D_HOST_DEVICE constexpr int32_t staging_pitch(int32_t elements, int32_t element_bytes) {
  return ((elements * element_bytes + 15) / 16 | 1) * 16;
}

// What follows from all else: tables, staging, the sum. False where a block would need more than there is.
bool set_memory(CorrelationPlan& plan, int32_t element_bytes, int32_t most_table_steps, int64_t most_bytes);

}  // namespace convt3d::mma
