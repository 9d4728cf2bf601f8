// The sizes that the wgmma engine's plans and kernels share.
#pragma once

#include <cstdint>

namespace convt3d {

constexpr int kHaloMaxOffsets = 16;  // along one axis
constexpr int kHaloMaxStride = 2;
constexpr int kHaloMaxPhases = 8;
constexpr int kHaloMaxJoined = 4;        // groups
constexpr int kHaloMaxLoops = 16;        // phases x accumulator sets
constexpr int kHaloMaxLoopStages = 512;  // of weights for one chunk, in all loops
constexpr int32_t kHaloMaxTile[3] = {127, 255, 510};

// A block's warps: two warpgroups of consumers, three producers of tiles, one of weights.
constexpr int kHaloConsumerWarps = 8;
constexpr int kHaloTileProducerWarps = 3;

// The pipelines between them.
constexpr int kHaloLeastWeightStages = 3;  // unless they hold all weights
constexpr int kHaloMaxWeightStages = 12;
constexpr int kHaloMaxTileStages = 4;
constexpr int kHaloStageSlicesLog = 2;
constexpr int kHaloStageSlices = 1 << kHaloStageSlicesLog;  // of the packed weight in a stage: K steps x terms
constexpr int kHaloSliceBytes = 2048;    // of the packed weight: [2][64 rows][16 bytes], a K step of one term
constexpr int kHaloOperandBytes = 32;    // of one row of an operand in a K step
constexpr int kHaloNMajorChannels = 16;  // of a K step, where panels are N-major
constexpr int kHaloWeightStageBytes = kHaloStageSlices * kHaloSliceBytes;
constexpr int kHaloTileRowsLog = 6;  // of M, in one instruction
constexpr int kHaloTileRows = 1 << kHaloTileRowsLog;
constexpr int kHaloSlabRows = 16;  // of M, in one warp's accumulators of one set
constexpr int kHaloTileSlabs = kHaloTileRows / kHaloSlabRows;
constexpr int kHaloMaxClasses = 256;  // of blocks, by the weights that they keep

// Shared memory.
constexpr int kHaloBarrierBytes = 1024;
constexpr int kHaloColumnBytes = 2;          // of an entry of the table of columns
constexpr int kHaloStoredSegmentBytes = 16;  // of an entry of the table of segments
constexpr int kHaloShiftBytes = 2;           // of an entry of the table of shifts
constexpr int kHaloSourceBytes = 4;          // of an entry of the tables of sources
constexpr int kHaloBoxBuffers = 2;           // of one producer warp, where the input is transposed on its way
constexpr int kHaloBoxBytes = 6144;          // of one of them
constexpr int kHaloWordsInFlight = 4;        // of a thread that transposes boxes of planes

}  // namespace convt3d
