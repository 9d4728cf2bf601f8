#include "engines/mma/load_cost.h"

#include <algorithm>
#include <cmath>

#include "core/integer.h"

namespace convt3d::mma {
namespace {

constexpr double kSector = 32;

// Instructions of a loading thread, counted in the machine code of sm_90a and sm_80.
constexpr double kTableLine = 60;
constexpr double kRound = 40;         // a place of a thread
constexpr double kRowCopied = 9;      // ... of rows that begin at multiples of 16 bytes
constexpr double kOddRowCopied = 20;  // ... anywhere
constexpr double kRounded = 11;
constexpr double kMaskApplied = 35;
constexpr double kItem = 60;  // of transposed rows: a line's piece of channels

}  // namespace

double loading_clocks(const LoadedTile& loaded) {
  const LoadShape& shape = loaded.shape;
  const double channels = kPieceBytes / static_cast<double>(loaded.element_bytes);
  const double tables = static_cast<double>(ceil_div(shape.lines, shape.threads)) * kTableLine;
  const double lines = static_cast<double>(shape.rounds) * shape.each;
  const double masks = loaded.masked ? 2 : 1;
  double instructions = tables + shape.rounds * kRound;
  double waits = 0;
  switch (loaded.way) {
    case LoadWay::kCopy:
      instructions += lines * (kCopyInstructions + (loaded.rounds ? kRounded : 0));
      break;
    case LoadWay::kCopyMasked:
      instructions += lines * (2 * kCopyInstructions + kMaskApplied);
      break;
    case LoadWay::kRows: {
      instructions += lines * masks * (shape.raw.aligned ? kRowCopied : kOddRowCopied);
      // Four neighbouring lanes have an item; words are one element of 32 bits, or two of 16.
      const double items = std::ceil(4.0 * shape.lines * loaded.tile.pieces / shape.threads);
      const double reads = masks * channels * (loaded.element_bytes == 2 && !shape.raw.aligned ? 3 : 1);
      const double words = std::ceil(shape.raw.span * loaded.element_bytes / 16.0);
      instructions += items * (kItem + words * (reads + (loaded.element_bytes == 2 ? 24 : 12)));
      break;
    }
    default:
      instructions += lines * masks * channels * 8;
      waits = std::ceil(lines * masks / 4) * kMemoryLatency;
      break;
  }
  return instructions * kLoaderClocks + waits;
}

double source_bytes(const LoadedTile& loaded) {
  const double masks = loaded.masked ? 2 : 1;
  if (loaded.way == LoadWay::kRows) {
    const double run = static_cast<double>(loaded.shape.raw.span) * loaded.element_bytes;
    return masks * loaded.raw_pieces() / loaded.shape.raw.pitch * kPieceBytes * (run + kSector / 2);
  }
  const double channels = loaded.tile.pieces * double{kPieceBytes};
  if (loaded.way != LoadWay::kWidth) return masks * loaded.tile.staged_rows() * std::ceil(channels / kSector) * kSector;
  const TileAxis& width = loaded.tile.axis[2];
  const double apart = std::min<double>(width.step / static_cast<double>(width.units), kSector / loaded.element_bytes);
  return masks * loaded.pieces() * kPieceBytes * std::max(apart, 1.0);
}

double staging_bytes(const LoadedTile& loaded) {
  const double tile = loaded.pieces() * kPieceBytes;
  if (loaded.way == LoadWay::kRows) return tile + 2 * loaded.raw_pieces() * kPieceBytes * (loaded.masked ? 2 : 1);
  if (loaded.way == LoadWay::kCopyMasked) return 5 * tile;
  return loaded.way == LoadWay::kCopy && loaded.rounds ? 3 * tile : tile;
}

}  // namespace convt3d::mma
