#include "engines/mma/tile/load_shape.h"

#include <algorithm>

#include "core/integer.h"

namespace convt3d::mma {
namespace {

constexpr int32_t kMostIterations = 16;
constexpr int64_t kIterationLines = 12;  // an iteration begins at the cost of so many lines
constexpr int64_t kMostSpan = 1 << 16;   // more is more than any shared memory

// Chooses in how many iterations the threads have their places: many small ones leave fewer threads without a place.
void choose_iterations(LoadShape& shape) {
  int64_t least = 0;
  for (int64_t iterations = ceil_div(shape.places, shape.threads); iterations <= shape.places; ++iterations) {
    const int64_t at_once = ceil_div(shape.places, iterations);
    const int64_t groups = std::min<int64_t>(shape.threads / at_once, shape.lines);
    const int64_t each = ceil_div(shape.lines, groups);
    const int64_t clocks = iterations * (each + kIterationLines);
    if (least == 0 || clocks < least) {
      least = clocks;
      shape.iterations = static_cast<int32_t>(iterations);
      shape.at_once = static_cast<int32_t>(at_once);
      shape.groups = static_cast<int32_t>(groups);
      shape.each = static_cast<int32_t>(each);
    }
    if (iterations >= kMostIterations) break;
  }
  shape.by_at_once = make_divisor(shape.at_once);
}

RawRows raw_rows(const StagedTile& tile, int32_t element_bytes, SourceAt source) {
  const TileAxis& width = tile.axis[2];
  const int32_t components = width.split ? 1 : width.components;
  const int32_t least = *std::min_element(width.delta, width.delta + components);
  const int32_t most = *std::max_element(width.delta, width.delta + components);
  RawRows raw{};
  raw.least = width.split ? 0 : least;
  raw.begin = source.begin;
  raw.matrices = element_bytes == 2 && source.begin != RowsBegin::kAnywhere;
  const int64_t span = int64_t{width.length - 1} * width.step + most - least + 1;
  raw.span = static_cast<int32_t>(std::min(span, kMostSpan));
  // Elements before the first that is staged, of the 16 bytes that have it.
  const int32_t in_piece = kPieceBytes / element_bytes;
  const bool is_known = source.begin == RowsBegin::kWhole && !width.split && source.multiple % in_piece == 0;
  const int32_t lead = is_known ? (least % in_piece + in_piece) % in_piece : in_piece - 1;
  raw.pieces = static_cast<int32_t>(ceil_div(int64_t{raw.span} + lead, int64_t{in_piece}));
  // Eight rows of a matrix lie in banks of their own, or two in the same; else eight pieces of channels.
  raw.pitch = (raw.matrices && raw.pieces % 4 == 0 ? raw.pieces + 1 : raw.pieces) * kPieceBytes;
  raw.item_pitch = kPieceBytes / element_bytes * raw.pitch + (raw.matrices ? 0 : kPieceBytes);
  return raw;
}

}  // namespace

LoadShape make_load_shape(const StagedTile& tile, LoadWay way, int32_t element_bytes, SourceAt source,
                          int32_t threads) {
  LoadShape shape{};
  shape.threads = threads;
  shape.lines = tile.images * tile.axis[0].staged() * tile.axis[1].staged();
  shape.columns = tile.axis[2].staged();
  shape.part_bytes = way == LoadWay::kCopyParts ? source.part_bytes : kPieceBytes;
  int32_t pieces = tile.pieces * (kPieceBytes / shape.part_bytes);
  shape.places = shape.columns * pieces;
  if (way == LoadWay::kRows) {
    shape.raw = raw_rows(tile, element_bytes, source);
    shape.raw.bytes = int64_t{shape.lines} * tile.pieces * shape.raw.item_pitch;
    pieces = shape.raw.pieces;
    shape.places = tile.pieces * (kPieceBytes / element_bytes) * pieces;
  }
  if (tile.has_channel_rows()) {
    pieces = tile.channel_rows.pieces;
    shape.places = tile.pieces * (kPieceBytes / element_bytes) * pieces;
  }
  if (copies_masked(way)) shape.mask_bytes = tile.bytes();
  if (way == LoadWay::kCopy || way == LoadWay::kCopyMasked || way == LoadWay::kCopyParts)
    shape.fixed_places = shape.places;
  choose_iterations(shape);
  shape.by_pieces = make_divisor(pieces);
  shape.by_columns = make_divisor(shape.columns);
  shape.by_lines = make_divisor(shape.lines);
  shape.by_components = make_divisor(tile.axis[2].split ? 1 : tile.axis[2].components);
  for (int i = 0; i < 2; ++i) shape.by_length[i] = make_divisor(tile.axis[i].length);
  return shape;
}

}  // namespace convt3d::mma
