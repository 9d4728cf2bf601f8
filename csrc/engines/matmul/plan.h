// A forward whose kernel is its stride, as one matrix product: no output has more than one tap. In GEMM's names M is
// the input's positions, K its channels, and N is (output channel, tap) in whichever order the weight has them: the
// weight is a matrix [K][N] as it lies. Knows nothing of torch or CUDA.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/device_traits.h"
#include "core/operands.h"
#include "core/problem.h"

namespace convt3d {

// Positions x columns that a block computes at a time.
enum class MatmulTile : int { k64x64, k128x128 };
constexpr MatmulTile kMatmulTiles[] = {MatmulTile::k64x64, MatmulTile::k128x128};

struct MatmulExtent {
  int32_t m;
  int32_t n;
  int32_t warps_m;
  int32_t warps_n;

  constexpr int32_t threads() const { return 32 * warps_m * warps_n; }
};
constexpr MatmulExtent matmul_extent(MatmulTile tile) {
  switch (tile) {
    case MatmulTile::k64x64:
      return {64, 64, 2, 2};
    case MatmulTile::k128x128:
      return {128, 128, 2, 4};
  }
  return {};
}

// Blocks of a tile that a multiprocessor has room for: their registers are bounded so.
constexpr int32_t matmul_blocks(MatmulTile tile, int32_t terms, int32_t element_bytes) {
  switch (tile) {
    case MatmulTile::k64x64:
      return terms == 2 ? 3 : element_bytes == 4 ? 4 : 5;
    case MatmulTile::k128x128:
      return terms == 2 ? 1 : 2;
  }
  return 1;
}

constexpr int32_t kMatmulStageBytes = 128;  // of K, that a stage has

// Bytes from a row of a staged tile to the next. The fragments' reads meet no other in its bank: rows are read as
// matrices at an odd number of 16 bytes, and word by word, four rows by eight columns, at 8 words past whole 32.
constexpr int32_t matmul_pitch(int32_t row_bytes, bool words) { return row_bytes + (words ? 32 : 16); }

// What lies side by side in the input: the channels of a position, or the positions of a channel.
enum class MatmulRows : int { kChannels, kPositions };

// How a block's threads store a tile. Lanes are neighbours along the columns or along the positions.
struct MatmulStore {
  bool by_columns;
  int32_t elements;  // neighbouring columns that are neighbours in the output, too: those of one store
};

struct MatmulPlan {
  MatmulTile tile;
  int32_t terms;  // of float32: 1 (TF32) or 2
  int32_t element_bytes;
  MatmulRows rows;
  bool linear;           // of channels side by side: all positions, of all images, are those of one axis
  int32_t copied_bytes;  // of the input, at once; less than 4: elements go through registers
  bool channels_last;    // columns are (tap, output channel), else (output channel, tap)
  MatmulStore store;
  Int3 size;          // of the input
  Int3 taps;          // kernel and stride
  int64_t positions;  // of all images
  int32_t groups;
  int32_t in_channels;   // per group: K
  int32_t out_channels;  // per group
  int32_t columns;       // N
  int32_t k_stages;
  int32_t m_tiles;
  int32_t n_tiles;
  bool resident;    // a block's columns of the weight stay in shared memory
  int32_t buffers;  // stages on their way or read
  int32_t walkers;  // blocks that take turns at the tiles of a group's columns
  int64_t shared_bytes;
  double cost_ms;

  MatmulExtent extent() const { return matmul_extent(tile); }
  int64_t blocks() const { return int64_t{groups} * n_tiles * walkers; }
};

// Where what a block stages lies in its shared memory, in bytes.
struct MatmulLayout {
  int32_t input_pitch;
  int32_t input_bytes;  // of a stage
  int32_t weight_pitch;
  int32_t weight_bytes;  // of a stage
  int32_t output_pitch;
  int32_t weight;  // offsets
  int32_t output;
  int32_t positions;
  int32_t columns;
  int32_t bytes;
};
MatmulLayout matmul_layout(const MatmulPlan& plan);

// The cheapest; none where the engine cannot.
std::optional<MatmulPlan> plan_matmul(const Problem& problem, DataType dtype, int terms, const Operands& operands,
                                      const DeviceTraits& device);
// All that are looked at.
std::vector<MatmulPlan> matmul_candidates(const Problem& problem, DataType dtype, int terms, const Operands& operands,
                                          const DeviceTraits& device);
std::string to_string(const MatmulPlan& plan);

}  // namespace convt3d
