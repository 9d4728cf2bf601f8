// What it costs to fill a staged tile: the loading threads' time, bytes of L2 and of shared memory.
#pragma once

#include "core/device_traits.h"
#include "engines/mma/tile/layouts.h"
#include "engines/mma/tile/load_shape.h"
#include "engines/mma/tile/tile.h"

namespace convt3d::mma {

constexpr double kCopyInstructions = 9.3;  // of a loading thread, for 16 bytes that are copied as they are
constexpr int32_t kFetchedBytes = 64;      // that memory is read by

struct LoadedTile {
  const StagedTile& tile;
  const LoadShape& shape;
  LoadWay way;
  bool masked;
  int32_t element_bytes;

  double pieces() const { return static_cast<double>(tile.staged_rows()) * tile.pieces; }
  // 16 bytes of raw rows, or what is copied at once of channel rows.
  double raw_pieces() const { return static_cast<double>(shape.lines) * shape.places; }
};

// Of one loading warp, for a stage.
struct LoadingCost {
  double instructions;
  double clocks;  // that it takes alone for them, with the waits for what goes through its registers
};
LoadingCost loading_cost(const LoadedTile& loaded, const DeviceTraits& device);
// Bytes that are asked of L2, in sectors: of pieces of a row, or of elements along a line, which begins anywhere.
double source_bytes(const LoadedTile& loaded);
// Bytes that loading writes to and reads from shared memory.
double staging_bytes(const LoadedTile& loaded);

}  // namespace convt3d::mma
