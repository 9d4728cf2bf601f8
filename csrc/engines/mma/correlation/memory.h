// A block's shared memory.
#pragma once

#include "engines/mma/correlation/plan.h"

namespace convt3d::mma {

constexpr int32_t kShareBytes = 64;
constexpr int32_t kMostBuffers = 4;  // of staged tiles
constexpr int32_t kMostSlots = 4;    // of weights
constexpr int32_t kBarrierBytes = 272;

// Byte offsets.
struct SharedLayout {
  int32_t share;     // the block's
  int32_t barriers;  // of buffers and of slots
  int32_t bias;      // float32, of a channel
  int32_t offsets;   // int64: where the destination has each position of each warp, or each row
  int32_t steps;     // int32: where each step of K reads, from a position's row on
  int32_t tables;    // the loader's
  int32_t fixed;     // the loader's, the same for all boxes
  int32_t staging;   // of rows of the destination
  int32_t weights;   // slots
  int32_t raw;       // rows, as they lie in the source
  int32_t tiles;     // buffers
  int64_t bytes;
};
SharedLayout shared_layout(const CorrelationPlan& plan);

// Of one step of K.
CONVT3D_HOST_DEVICE constexpr int32_t step_bytes(const ShapeExtent& extent, int terms) {
  return extent.n() * kStepBytes * terms;
}

// Elements of a staged row of the destination: those of all residues, or of one.
CONVT3D_HOST_DEVICE constexpr int32_t row_length(int32_t box_width, int32_t residues, bool joins) {
  return joins ? box_width * residues : box_width;
}

// Residues of a row that are staged as matrices, each by itself.
constexpr int32_t kMostMatrixResidues = 2;

// Bytes from a channel's staged rows to the next's: whole pieces, an odd number of them, so that the channels of
// neighbouring lanes are in banks of their own.
CONVT3D_HOST_DEVICE constexpr int32_t staging_pitch(int32_t elements, int32_t element_bytes) {
  return ((elements * element_bytes + 15) / 16 | 1) * 16;
}

// What a block's stages multiply with.
void set_weight_steps(CorrelationPlan& plan);
// What follows from what a block computes: tables, staging, the sum. False where there is none such.
bool set_tables(CorrelationPlan& plan, int32_t element_bytes, int32_t most_table_steps, int32_t most_row_vector);
// What follows from its buffers and slots: the bytes of a block. False where they are more than there are.
bool set_memory(CorrelationPlan& plan, int64_t most_bytes);

}  // namespace convt3d::mma
