#include "engines/mma/tile/load_cost.h"

#include <algorithm>
#include <cmath>

#include "core/integer.h"
#include "engines/mma/tile/multiprocessor_cost.h"

namespace convt3d::mma {
namespace {

constexpr double kSector = 32;

// Instructions of a loading warp: about as many as the machine code of sm_90a has, fitted to times measured on an H200.
constexpr double kStage = 200;           // turns of buffers, tables and barriers
constexpr double kSettled = 74;          // what a stage costs more where copies are waited for
constexpr double kTableLine = 67;        // a line of the table that its box has
constexpr double kPlace = 67;            // a place of a thread, before its lines
constexpr double kFixedPlace = 25;       // a place of which what is the same in all boxes is kept; not fitted
constexpr double kRowPlace = 33;         // a place of channel rows; counted, not fitted
constexpr double kRowMaskApplied = 18;   // a mask of 16 bytes of channel rows; counted, not fitted
constexpr double kWordMaskApplied = 7;   // a mask of an element of channel rows; counted, not fitted
constexpr double kRowCopied = 9.6;       // 16 bytes of rows that begin at multiples of 16 bytes
constexpr double kOddRowCopied = 21;     // 16 bytes of rows that begin anywhere
constexpr double kMaskApplied = 35;      // a mask of 16 bytes of channels; not fitted
constexpr double kMatrices = 7.5;        // four matrices of whole rows, transposed; counted in machine code, not fitted
constexpr double kAlikeMatrices = 14.5;  // four matrices of rows that begin alike; counted, not fitted
constexpr double kNoMatrixStore = 11;    // what four matrices cost more without stmatrix
constexpr double kMasksOfMatrices = 11;  // the masks of four matrices
constexpr double kMatricesBegin = 42;    // what a warp begins four places with
constexpr double kWords16 = 34;          // a transposed word of each of eight channels, beside the reads
constexpr double kWords32 = 21;          // a transposed word of each of four channels, beside the reads
constexpr double kItem = 37;             // a line's piece of channels, before its words
// Elements that a thread has on their way at once, about: ptxas has two of 16 bits, for want of predicates; set by
// hand.
constexpr double kGathered16 = 4;
constexpr double kGathered32 = 8;
constexpr double kElement = 8;          // what goes through registers, element by element; not fitted
constexpr double kCopyingClocks = 2.7;  // of an instruction of copies, many of which wait for nothing

// Raw rows that have arrived.
double transposing(const LoadedTile& loaded, const DeviceTraits& device) {
  const LoadShape& shape = loaded.shape;
  if (shape.raw.matrices) {
    const double fours = static_cast<double>(ceil_div(shape.raw.pieces * loaded.tile.pieces, 4)) * shape.lines;
    const double of_warp = std::ceil(fours * 32 / shape.threads);
    return of_warp * ((shape.raw.begin == RowsBegin::kWhole ? kMatrices : kAlikeMatrices) +
                      (loaded.masked ? kMasksOfMatrices : 0) + (device.stores_matrices() ? 0 : kNoMatrixStore)) +
           std::ceil(of_warp / shape.lines) * kMatricesBegin;
  }
  // Four neighbouring lanes have an item; words are one element of 32 bits, or two of 16, of which halves are read.
  const bool halves = loaded.element_bytes == 2;
  const double items = std::ceil(4.0 * shape.lines * loaded.tile.pieces / shape.threads);
  const double reads =
      (loaded.masked ? 2 : 1) * kPieceBytes / static_cast<double>(loaded.element_bytes) * (halves ? 3 : 1);
  const double words = std::ceil(shape.raw.span * loaded.element_bytes / 16.0);
  return items * (kItem + words * (reads + (halves ? kWords16 : kWords32)));
}

}  // namespace

LoadingCost loading_cost(const LoadedTile& loaded, const DeviceTraits& device) {
  const LoadShape& shape = loaded.shape;
  const double channels = kPieceBytes / static_cast<double>(loaded.element_bytes);
  const double tables = static_cast<double>(ceil_div(shape.lines, shape.threads)) * kTableLine;
  const double lines = static_cast<double>(shape.iterations) * shape.each;
  const double masks = loaded.masked ? 2 : 1;
  const double places = shape.iterations * kPlace;
  double copied = 0;  // instructions that wait for nothing
  double others = kStage + tables;
  double waits = 0;
  switch (loaded.way) {
    case LoadWay::kCopy:
    case LoadWay::kCopyParts:
      copied = lines * kCopyInstructions;
      others += shape.iterations * kFixedPlace;
      break;
    case LoadWay::kChannelRows:
      copied = lines * kCopyInstructions;
      others += shape.iterations * kRowPlace;
      break;
    case LoadWay::kChannelRowsMasked:
      copied = 2 * lines * kCopyInstructions;
      others += kSettled + 3 * shape.iterations * kRowPlace +
                lines * (loaded.tile.channel_rows.elements > 1 ? kRowMaskApplied : kWordMaskApplied);
      break;
    case LoadWay::kCopyMasked:
      copied = 2 * lines * kCopyInstructions;
      others += kSettled + 3 * shape.iterations * kFixedPlace + lines * kMaskApplied;
      break;
    case LoadWay::kRows: {
      copied = lines * masks * (shape.raw.begin == RowsBegin::kWhole ? kRowCopied : kOddRowCopied);
      others += masks * places + kSettled + transposing(loaded, device);
      break;
    }
    default:
      others += places + lines * masks * channels * kElement;
      waits = std::ceil(lines * masks * channels / (loaded.element_bytes == 2 ? kGathered16 : kGathered32)) *
              device.memory.latency_clocks;
      break;
  }
  return {copied + others, copied * kCopyingClocks + others * kAloneClocks + waits};
}

double source_bytes(const LoadedTile& loaded) {
  const double masks = loaded.masked ? 2 : 1;
  if (has_channel_rows(loaded.way)) {
    const double run = static_cast<double>(loaded.tile.axis[2].length) * loaded.element_bytes;
    const double rows = static_cast<double>(loaded.raw_pieces()) / loaded.tile.channel_rows.pieces;
    return masks * rows * (run + kSector / 2);
  }
  if (loaded.way == LoadWay::kRows) {
    const double run = static_cast<double>(loaded.shape.raw.span) * loaded.element_bytes;
    return masks * loaded.raw_pieces() / loaded.shape.raw.pitch * kPieceBytes * (run + kSector / 2);
  }
  const double channels = loaded.tile.pieces * double{kPieceBytes};
  if (loaded.way != LoadWay::kWidth) return masks * loaded.tile.staged_rows() * std::ceil(channels / kSector) * kSector;
  const TileAxis& width = loaded.tile.axis[2];
  const double apart =
      std::min<double>(width.step / static_cast<double>(width.components), kSector / loaded.element_bytes);
  return masks * loaded.pieces() * kPieceBytes * std::max(apart, 1.0);
}

double staging_bytes(const LoadedTile& loaded) {
  const double tile = loaded.pieces() * kPieceBytes;
  if (loaded.way == LoadWay::kRows) return tile + 2 * loaded.raw_pieces() * kPieceBytes * (loaded.masked ? 2 : 1);
  return copies_masked(loaded.way) ? 5 * tile : tile;
}

}  // namespace convt3d::mma
