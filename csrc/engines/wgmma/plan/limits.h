// The sizes that the wgmma engine's plans and kernels share.
#pragma once

#include <cstdint>

namespace convt3d {

constexpr int kWgmmaMaxOffsets = 16;  // along one axis
constexpr int kWgmmaMaxStride = 2;
constexpr int kWgmmaMaxPhases = 8;
constexpr int kWgmmaMaxJoined = 4;        // groups
constexpr int kWgmmaMaxLoops = 16;        // phases x accumulator sets
constexpr int kWgmmaMaxLoopStages = 512;  // of weights for one chunk, in all loops
constexpr int32_t kWgmmaMaxTile[3] = {127, 255, 510};

// A block's warps: two warpgroups of consumers, three producers of tiles, one of weights.
constexpr int kWgmmaConsumerWarps = 8;
constexpr int kWgmmaTileProducerWarps = 3;

// The pipelines between them.
constexpr int kWgmmaLeastWeightStages = 3;  // unless they hold all weights
constexpr int kWgmmaMaxWeightStages = 12;
constexpr int kWgmmaMaxTileStages = 4;
constexpr int kWgmmaStageSlicesLog = 2;
constexpr int kWgmmaStageSlices = 1 << kWgmmaStageSlicesLog;  // of the packed weight in a stage: K steps x terms
constexpr int kWgmmaSliceBytes = 2048;    // of the packed weight: [2][64 rows][16 bytes], a K step of one term
constexpr int kWgmmaOperandBytes = 32;    // of one row of an operand in a K step
constexpr int kWgmmaNMajorChannels = 16;  // of a K step, where panels are N-major
constexpr int kWgmmaWeightStageBytes = kWgmmaStageSlices * kWgmmaSliceBytes;
constexpr int kWgmmaTileRowsLog = 6;  // of M, in one instruction
constexpr int kWgmmaTileRows = 1 << kWgmmaTileRowsLog;
constexpr int kWgmmaSlabRows = 16;  // of M, in one warp's accumulators of one set
constexpr int kWgmmaTileSlabs = kWgmmaTileRows / kWgmmaSlabRows;
constexpr int kWgmmaMaxClasses = 256;  // of blocks, by the weights that they keep

// Shared memory.
constexpr int kWgmmaBarrierBytes = 1024;
constexpr int kWgmmaColumnBytes = 2;          // of an entry of the table of columns
constexpr int kWgmmaStoredSegmentBytes = 16;  // of an entry of the table of segments
constexpr int kWgmmaShiftBytes = 2;           // of an entry of the table of shifts
constexpr int kWgmmaSourceBytes = 4;          // of an entry of the tables of sources
constexpr int kWgmmaBoxBuffers = 2;           // of one producer warp, where the input is transposed on its way
constexpr int kWgmmaBoxBytes = 6144;          // of one of them
constexpr int kWgmmaWordsInFlight = 4;        // of a thread that transposes boxes of planes

}  // namespace convt3d
