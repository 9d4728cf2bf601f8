// Layers whose kernel is their stride, as one matrix product: no output has more than one tap. The weight is a matrix
// as it lies, its rows input channels, its columns (output channel, tap) in whichever order it has them. In GEMM's
// names M is the input's positions. Of a forward K is the input's channels and N the weight's columns; of the input's
// gradient K is the weight's columns and N the input's channels. Knows nothing of torch or CUDA.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/device_traits.h"
#include "core/operands.h"
#include "core/operator.h"
#include "core/problem.h"

namespace convt3d {

// Positions x columns that a block computes at a time.
enum class MatmulTile : int { k64x64, k128x128 };
constexpr MatmulTile kMatmulTiles[] = {MatmulTile::k64x64, MatmulTile::k128x128};

struct MatmulExtent {
  int32_t m;
  int32_t n;
  int32_t warps;

  constexpr int32_t threads() const { return 32 * warps; }
};
constexpr MatmulExtent matmul_extent(MatmulTile tile) {
  switch (tile) {
    case MatmulTile::k64x64:
      return {64, 64, 4};
    case MatmulTile::k128x128:
      return {128, 128, 8};
  }
  return {};
}

// Warps along the positions and along the columns. Of 16 bits a forward's warp has 64 columns of the larger tile: the
// 128 bytes of a line where channels lie side by side.
struct MatmulWarps {
  int32_t m;
  int32_t n;
};
constexpr MatmulWarps matmul_warps(MatmulTile tile, Operator op, int32_t element_bytes) {
  if (tile == MatmulTile::k64x64) return {2, 2};
  return op == Operator::kForward && element_bytes == 2 ? MatmulWarps{4, 2} : MatmulWarps{2, 4};
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
constexpr int32_t kMatmulStepBytes = 32;    // of K, that an instruction multiplies
constexpr int32_t kMatmulStageSteps = kMatmulStageBytes / kMatmulStepBytes;

// Teams of a block's threads, each with stages of its own, that share a tile's K: where there are few tiles. A kernel
// has one or up to so many, of the smaller tile; two terms need registers that four teams do not leave.
constexpr int32_t matmul_teams(int32_t terms) { return terms == 2 ? 2 : 4; }

// How M and K lie in a staged tile of the source: the input, or grad_output. Words are of 4 bytes.
enum class MatmulRows : int {
  kChannels,   // [M][K]
  kPositions,  // [K][M], of an input alone
  kWords,      // [K in words][M][word], of a gradient alone
  kPairs       // [K in pairs of words][M][pair], of a gradient alone
};

// Bytes from a row of a staged tile to the next. The fragments' reads meet no other in its bank: rows are read as
// matrices at an odd number of 16 bytes; word by word, four rows by eight columns, at 8 words past whole 32; and pairs,
// two rows by eight columns, at 16 words past whole 32.
constexpr int32_t matmul_pitch(int32_t row_bytes, bool words) { return row_bytes + (words ? 32 : 16); }
constexpr int32_t matmul_source_pitch(MatmulRows rows, int32_t m, int32_t element_bytes) {
  switch (rows) {
    case MatmulRows::kChannels:
      return matmul_pitch(kMatmulStageBytes, false);
    case MatmulRows::kPositions:
      return matmul_pitch(m * element_bytes, element_bytes == 4);
    case MatmulRows::kWords:
      return matmul_pitch(m * 4, true);
    case MatmulRows::kPairs:
      return m * 8 + 64;
  }
  return 0;
}
// Rows of a stage.
constexpr int32_t matmul_source_rows(MatmulRows rows, int32_t m, int32_t element_bytes) {
  switch (rows) {
    case MatmulRows::kChannels:
      return m;
    case MatmulRows::kPositions:
      return kMatmulStageBytes / element_bytes;
    case MatmulRows::kWords:
      return kMatmulStageBytes / 4;
    case MatmulRows::kPairs:
      return kMatmulStageBytes / 8;
  }
  return 0;
}
// Of the weight: a forward stages [K][N], a gradient [N][K].
constexpr int32_t matmul_weight_pitch(Operator op, int32_t n, int32_t element_bytes) {
  return op == Operator::kForward ? matmul_pitch(n * element_bytes, element_bytes == 4)
                                  : matmul_pitch(kMatmulStageBytes, false);
}
constexpr int32_t matmul_weight_rows(Operator op, int32_t n, int32_t element_bytes) {
  return op == Operator::kForward ? kMatmulStageBytes / element_bytes : n;
}

// A warp stages its sums a slab at a time, of so many parts: of 16 positions all of its columns or, of a grad_input
// with positions side by side, of 8 columns all of its positions. Of TF32 smaller slabs leave room for a second block.
constexpr int32_t kMatmulPartPositions = 16;
constexpr int32_t kMatmulPartColumns = 8;
constexpr int32_t matmul_slab_parts(int32_t parts, int32_t terms, int32_t element_bytes) {
  const int32_t most = element_bytes == 2 ? 4 : terms == 2 ? 2 : 1;
  return parts < most ? parts : most;
}
// How a warp's lanes store a slab: in pieces of columns, or of positions, that are neighbours in the result.
struct MatmulStore {
  bool by_pieces;     // lanes have neighbouring pieces, else pieces of neighbouring positions
  bool of_positions;  // by pieces
  int32_t elements;   // of a piece
};

// Bytes from a row of a slab to the next. By their addresses, lanes share banks only as far as they must, but in three
// places: words that leave by positions are staged at half the rate, 16 bits that leave by positions, in pieces of less
// than 16 bytes, are read at a half or a quarter of it, and rows of 64 bytes of 16 bits at a half.
constexpr int32_t matmul_slab_pitch(int32_t row_bytes, int32_t element_bytes, const MatmulStore& store) {
  if (element_bytes == 2 || store.of_positions) return row_bytes + 16;
  if (store.by_pieces) return row_bytes + 32;
  return row_bytes + (store.elements * element_bytes == 16 ? 16 : 40);
}

struct MatmulPlan {
  Operator op;  // kForward or kInputGrad
  MatmulTile tile;
  int32_t teams;  // 1, 2 or 4
  int32_t terms;  // of float32: 1 (TF32) or 2
  int32_t element_bytes;
  MatmulRows rows;
  bool linear;           // of an input with channels side by side: all images' positions are those of one axis
  int32_t copied_bytes;  // of the source, at once; less than 4: elements go through registers
  int32_t spread;        // bytes of L2 that are read for each of the source's, as lanes are no neighbours there
  bool by_positions;  // lanes copy for neighbouring positions, else neighbouring bytes; rows of an input have their own
  bool channels_last;  // the weight's columns are (tap, output channel), else (output channel, tap)
  MatmulStore store;
  Int3 size;          // of the input
  Int3 taps;          // kernel and stride
  int64_t positions;  // of all images
  int32_t groups;
  int32_t out_channels;  // per group
  int32_t k;             // per group
  int32_t columns;       // N, per group
  int32_t k_stages;
  int32_t m_tiles;
  int32_t n_tiles;
  bool resident;    // a block's columns of the weight stay in shared memory
  int8_t splits;    // blocks that share a tile's K, each of which has some stages; then each has one tile
  int32_t buffers;  // stages on their way or read
  int32_t walkers;  // blocks that take turns at the tiles of a group's columns
  int64_t shared_bytes;
  double cost_ms;

  int32_t threads() const { return teams * extent().threads(); }
  MatmulExtent extent() const { return matmul_extent(tile); }
  MatmulWarps warps() const { return matmul_warps(tile, op, element_bytes); }
  int64_t blocks() const { return int64_t{groups} * n_tiles * walkers * splits; }
  constexpr int32_t split_stages() const { return (k_stages + splits - 1) / splits; }  // of all but the last split
  int32_t last_split_stages() const { return k_stages - (splits - 1) * split_stages(); }
  // The workspace: of each tile a counter of splits that have left their sums, then [tile][split][sums].
  int64_t counters() const { return splits > 1 ? int64_t{groups} * n_tiles * m_tiles : 0; }
  int64_t partial_offset() const { return (counters() * 4 + 15) / 16 * 16; }
  int64_t workspace_bytes() const {
    return partial_offset() + counters() * splits * extent().m * extent().n * static_cast<int64_t>(sizeof(float));
  }
  // Of the last stage of K, which may be no whole one.
  constexpr int32_t last_steps() const {
    return (k * element_bytes - (k_stages - 1) * kMatmulStageBytes + kMatmulStepBytes - 1) / kMatmulStepBytes;
  }
};

// Where what a block stages lies in its shared memory, in bytes. Each team has stages of its own, but for weights that
// stay; teams join their sums where the result is staged.
struct MatmulLayout {
  int32_t source_bytes;  // of a stage
  int32_t weight_bytes;  // of a stage
  int32_t result_pitch;
  int32_t slab_bytes;  // of a warp
  int32_t weight;      // offsets
  int32_t result;
  int32_t positions;
  int32_t columns;
  int32_t places;  // of a gradient: where in grad_output the pieces of K are
  int32_t bytes;

  constexpr int32_t adds() const { return places - 16; }  // of splits: whether the block adds what all have left
};
MatmulLayout matmul_layout(const MatmulPlan& plan);

// The cheapest of a forward or an input gradient; none where the engine cannot.
std::optional<MatmulPlan> plan_matmul(Operator op, const Problem& problem, DataType dtype, int terms,
                                      const Operands& operands, const DeviceTraits& device);
// All that are looked at.
std::vector<MatmulPlan> matmul_candidates(Operator op, const Problem& problem, DataType dtype, int terms,
                                          const Operands& operands, const DeviceTraits& device);
const char* to_string(MatmulRows rows);
std::string to_string(const MatmulPlan& plan);

}  // namespace convt3d
