// The tensor-core engine's plan: a block keeps a tile of the input with its halo in shared memory and serves every tap
// and phase from it. In GEMM's names, M is (phases, output channel), N is positions u of the phase grid, K is (tap,
// input channel).
// - Positions: a block owns td x 8 x tw positions of one image; each 8 x 8 piece of a depth is the N = 64 of one
//   instruction.
// - Planes: the tile is stored as 16-byte pieces of a position's channels, [plane][position], so that a tap is a shift
// of
//   the operand's address by whole positions.
// - Rows: M is cut into slabs of 16 rows, a warp's share. Where the stride along the width is 2 and the width is
// contiguous
//   in the output, rows r and r + 8 of a slab are the two width phases of 8 output channels, so that a slab's outputs
//   are neighbours; else a slab is 16 channels. Phases of the height and the depth join M while the channels alone
//   leave rows empty; the others are the block's outer loop.
// - Taps: phases that share M share their offsets; an offset at which a phase has no tap has a zero weight there.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "phase_map.h"
#include "problem.h"

namespace convt3d {

constexpr int kHaloMaxOffsets = 16;  // along one axis
constexpr int kHaloMaxStride = 2;
constexpr int kHaloRows = 8;  // height of a position tile
constexpr int kHaloRing = 4;  // stages of the weight ring

// Blocks of the kernel that share an SM: 64 accumulators a thread leave room for two.
constexpr int halo_blocks_per_sm(int warpgroup_n_tiles) { return warpgroup_n_tiles == 2 ? 2 : 1; }

// The offsets that one residue (or, where the axis' residues share M, all of them) reads, and the tap of each residue
// there.
struct HaloTaps {
  int32_t count;
  int32_t offset[kHaloMaxOffsets];
  int32_t tap[kHaloMaxOffsets][kHaloMaxStride];  // -1: no tap
};

struct HaloAxis {
  int32_t stride;
  int32_t in_m;                   // residues that share M: stride or 1
  int32_t outer;                  // residues of the outer loop: stride / in_m
  HaloTaps taps[kHaloMaxStride];  // of each outer residue
  int32_t low;                    // smallest offset
  int32_t high;                   // largest
  int32_t src_size;
  int32_t dst_size;
  int32_t positions;  // extent of u
};

struct HaloPlan {
  bool usable;
  double cost;  // expected, in clocks
  std::array<HaloAxis, 3> axis;
  int64_t batch;
  int64_t groups;
  int32_t in_channels;   // per group
  int32_t out_channels;  // per group
  bool pair_width;       // rows r and r + 8 are the two width phases
  int32_t slab_channels;
  int32_t channel_slabs;
  int32_t slabs;
  int32_t m_tiles;            // of 64 rows
  int32_t block_m_tiles;      // of one block: 1 or 2
  int32_t warpgroup_n_tiles;  // N = 64 tiles of one warpgroup
  int32_t tile[3];            // positions of a block along each axis
  int32_t halo[3];            // ... with the halo
  int32_t tiles[3];           // blocks along each axis
  int32_t plane_positions;    // positions of a plane, padded to an odd count
  int32_t planes;             // 16-byte planes of all channels of a group, padded to whole chunks
  int32_t chunk_planes;       // planes in shared memory at a time, an even count: one step of K is two planes
  int32_t stage_steps;        // steps of K in one stage of the weight ring
  int32_t steps;              // ... in the whole stream
  int32_t entries;            // offsets over all outer residues
  int64_t step_bytes;         // of the packed weight: [2 planes][rows][16 bytes]
  int64_t shared_bytes;
  int64_t packed_bytes;

  int64_t blocks() const { return batch * groups * (m_tiles / block_m_tiles) * tiles[0] * tiles[1] * tiles[2]; }
};

// `element_bytes`: 4 (float32 rounded to TF32) or 2. `channels_last`: the output's format.
std::vector<HaloPlan> halo_candidates(const Problem& problem, int element_bytes, bool channels_last);
// The cheapest candidate; not usable where there is none.
HaloPlan plan_halo_forward(const Problem& problem, int element_bytes, bool channels_last);
std::string to_string(const HaloPlan& plan);

}  // namespace convt3d
