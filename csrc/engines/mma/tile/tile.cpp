#include "engines/mma/tile/tile.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/integer.h"

namespace convt3d::mma {
namespace {

constexpr int kMatrixRows = 8;  // rows that ldmatrix reads at once, each of its own banks
constexpr int kWordBytes = 4;
constexpr int32_t kMostRows = 1 << 26;
constexpr int64_t kMostCoordinates = 1 << 16;  // of a row; more is more than any shared memory

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// Who reads which of eight rows' banks: a row has those of every eighth row, as rows are an odd number of pieces apart.
class BankReaders {
 public:
  // Returns how many were there before.
  int32_t add(uint32_t row) {
    const uint32_t shift = row % kMatrixRows * 8;
    const auto before = static_cast<int32_t>(counts_ >> shift & 0xff);
    counts_ += uint64_t{1} << shift;
    return before;
  }

 private:
  uint64_t counts_ = 0;  // a byte each
};

// How the positions of a box, or its first 256, are read: eight neighbours at once. Eights that lie alike, but for
// where they begin, meet the same conflicts.
class ReadPositions {
 public:
  ReadPositions(const StagedTile& tile, const BoxRows& rows) {
    constexpr int32_t kMost = 256;
    const int32_t width = tile.axis[2].box;
    const int32_t count = std::min(rows.count * width, kMost);
    Eight eight;
    if (width % kMatrixRows == 0) {
      for (; eight.count < kMatrixRows; ++eight.count) eight.places[eight.count][3] = static_cast<int32_t>(eight.count);
      eight.times = count / kMatrixRows;
      eights_.push_back(eight);
      return;
    }
    Place first{};
    for (int32_t line = 0, position = 0; position < count; ++line) {
      const BoxPlace place = rows.place(line);
      for (int32_t w = 0; w < width && position < count; ++w) {
        const Place at = {place.image, place.d, place.h, w};
        if (eight.count == 0) first = at;
        for (std::size_t a = 0; a < at.size(); ++a) eight.places[eight.count][a] = at[a] - first[a];
        ++eight.count;
        if (++position < count && eight.count < kMatrixRows) continue;
        add(eight);
        eight = {};
      }
    }
  }

  // Adds up over all eights what `join` makes, from 0 on, of how many rows before each row of an eight have its banks.
  template <typename Join>
  int32_t sum(const StagedTile& tile, int32_t column_step, Join&& join) const {
    int32_t result = 0;
    for (const Eight& eight : eights_) {
      BankReaders readers;
      int32_t waits = 0;
      for (std::size_t i = 0; i < eight.count; ++i) {
        const auto [image, d, h, w] = eight.places[i];
        const int32_t row = image * tile.stride[0] + d * tile.stride[1] + h * tile.stride[2] + w * column_step;
        waits = join(waits, readers.add(static_cast<uint32_t>(row)));
      }
      result += eight.times * waits;
    }
    return result;
  }

 private:
  using Place = std::array<int32_t, 4>;
  struct Eight {
    std::array<Place, kMatrixRows> places{};  // from the first one
    std::size_t count = 0;
    int32_t times = 1;
  };

  void add(const Eight& eight) {
    for (Eight& known : eights_) {
      if (known.count != eight.count || known.places != eight.places) continue;
      ++known.times;
      return;
    }
    eights_.push_back(eight);
  }

  std::vector<Eight> eights_;
};

// Accesses that wait for others when eight neighbouring positions are read as rows.
int32_t conflicts(const StagedTile& tile, const ReadPositions& positions) {
  return positions.sum(tile, 1, [](int32_t waits, int32_t before) { return waits + before; });
}

void set_strides(StagedTile& tile, const int32_t (&padding)[3]) {
  tile.stride[3] = 1;
  tile.stride[2] = tile.axis[2].staged() + padding[2];
  tile.stride[1] = tile.axis[1].staged() * tile.stride[2] + padding[1];
  tile.stride[0] = tile.axis[0].staged() * tile.stride[1] + padding[0];
  tile.rows = tile.images * tile.stride[0];
}

// Chooses for each axis, from the innermost on, the least padding with the fewest conflicts.
void choose_strides(StagedTile& tile, const BoxRows& rows) {
  const bool several[3] = {tile.images > 1, tile.axis[0].box > 1, tile.axis[1].box > 1};
  int32_t padding[3] = {0, 0, 0};
  set_strides(tile, padding);
  const ReadPositions positions(tile, rows);
  int32_t fewest = conflicts(tile, positions);
  for (int axis = 2; axis >= 0 && fewest > 0; --axis) {
    if (!several[axis]) continue;
    int32_t best = 0;
    for (padding[axis] = 1; padding[axis] < kMatrixRows && fewest > 0; ++padding[axis]) {
      set_strides(tile, padding);
      const int32_t count = conflicts(tile, positions);
      if (count >= fewest) continue;
      fewest = count;
      best = padding[axis];
    }
    padding[axis] = best;
    set_strides(tile, padding);
  }
  tile.conflicts = fewest;
}

// An axis whose rows are coordinates, all that its components span.
TileAxis of_coordinates(const TileAxis& axis) {
  const int32_t components = axis.split ? 1 : axis.components;
  const int32_t least = *std::min_element(axis.delta, axis.delta + components);
  const int32_t most = *std::max_element(axis.delta, axis.delta + components);
  TileAxis result = axis;
  const int64_t length = int64_t{axis.length - 1} * axis.step + 1 + (axis.split ? 0 : most - least) + axis.beyond;
  result.length = static_cast<int32_t>(std::min<int64_t>(length, kMostCoordinates));
  for (int32_t& shift : result.shift) {
    const int32_t component = axis.split ? 0 : shift / axis.length;
    shift = (shift - component * axis.length) * axis.step + (axis.split ? 0 : axis.delta[component] - least);
  }
  if (axis.split) return result;
  result.components = 1;
  result.delta[0] = least;
  return result;
}

// Counts as conflicts() does, where a word of each of eight positions is read, of four channels that are an odd number
// of pieces apart.
int32_t word_conflicts(const StagedTile& tile, const ReadPositions& positions) {
  return 2 *
         positions.sum(tile, tile.column_step, [](int32_t waits, int32_t before) { return std::max(waits, before); });
}

// Where lines of so many pieces of channels begin; numbers that no shared memory has stay below kMostRows.
void set_channel_lines(StagedTile& tile, int32_t pieces, const std::array<int32_t, 3>& padding) {
  const auto bounded = [](int64_t rows) { return static_cast<int32_t>(std::min<int64_t>(rows, kMostRows)); };
  tile.pieces = pieces;
  tile.pieces_of_row = make_divisor(pieces);
  tile.line_padding = padding;
  tile.stride[3] = 1;
  int64_t rows = int64_t{pieces} * (kPieceBytes / kWordBytes) * (tile.channel_rows.pitch / kWordBytes);
  for (int i = 2; i >= 0; --i) {
    tile.stride[i] = bounded(rows + padding[static_cast<std::size_t>(i)]);
    rows = int64_t{tile.stride[i]} * (i > 0 ? tile.axis[i - 1].staged() : tile.images);
  }
  tile.rows = bounded(rows);
}

}  // namespace

bool make_tile_axis(const AxisMap& map, int32_t box, bool split, TileAxis& axis) {
  if (map.taps > kMostAxisTaps) return false;
  axis = {};
  axis.source_size = map.src_size;
  axis.box = box;
  axis.step = map.src_step;
  axis.split = split;
  struct Component {
    int64_t least = INT64_MAX;  // of the quotients of its offsets by the step
    int64_t most = INT64_MIN;
    int64_t remainder = 0;
  };
  std::map<int64_t, Component> components;  // by number of the tap in its phase, or by remainder
  const auto visit = [&](auto&& each) {
    for (int32_t p = 0; p < map.phases; ++p) {
      const AxisPhase phase = axis_phase(map, p);
      for (int32_t j = 0; j < phase.tap_count; ++j) {
        const int64_t offset = phase.first_offset + static_cast<int64_t>(j) * map.offset_step;
        const int64_t quotient = floor_div(offset, map.src_step);
        const int64_t remainder = offset - quotient * map.src_step;
        each(p + j * map.tap_step, quotient, remainder, split ? j : remainder);
      }
    }
  };
  visit([&](int32_t, int64_t quotient, int64_t remainder, int64_t key) {
    Component& component = components[key];
    component.least = std::min(component.least, quotient);
    component.most = std::max(component.most, quotient);
    component.remainder = remainder;
  });
  int64_t span = 0;
  for (const auto& [key, component] : components) span = std::max(span, component.most - component.least);
  if (span > 1 << 20) return false;
  axis.length = static_cast<int32_t>(box + span);
  axis.components = static_cast<int32_t>(components.size());
  std::map<int64_t, int32_t> number;
  for (const auto& [key, component] : components) {
    const auto index = static_cast<int32_t>(number.size());
    number[key] = index;
    axis.delta[index] = static_cast<int32_t>(component.least * map.src_step + component.remainder);
  }
  visit([&](int32_t tap, int64_t quotient, int64_t, int64_t key) {
    const int32_t first = split ? 0 : number[key] * axis.length;
    axis.shift[tap] = first + static_cast<int32_t>(quotient - components[key].least);
  });
  return true;
}

BoxRows make_box_rows(BoxOrder order, int32_t images, int32_t depth, int32_t height) {
  BoxRows rows{};
  rows.order = order;
  rows.count = images * depth * height;
  rows.first = make_divisor(order == BoxOrder::kHeight ? height : order == BoxOrder::kDepth ? depth : images);
  rows.second = make_divisor(order == BoxOrder::kHeight ? depth : height);
  return rows;
}

StagedTile make_tile(const std::array<TileAxis, 3>& axis, int32_t images, int32_t pieces, BoxOrder order) {
  StagedTile tile{};
  for (int i = 0; i < 3; ++i) {
    tile.axis[i] = axis[i];
    tile.staged[i] = make_divisor(axis[i].staged());
  }
  tile.images = images;
  tile.column_step = 1;
  set_pieces(tile, pieces);
  choose_strides(tile, make_box_rows(order, images, axis[0].box, axis[1].box));
  return tile;
}

double read_accesses(const StagedTile& tile, int32_t element_bytes) {
  constexpr std::size_t kLooked = 64;  // at so many positions
  std::array<uint32_t, kLooked> rows;
  std::size_t count = 0;
  const BoxRows lines = make_box_rows(BoxOrder::kHeight, tile.images, tile.axis[0].box, tile.axis[1].box);
  for (int32_t line = 0; line < lines.count && count < kLooked; ++line) {
    const BoxPlace place = lines.place(line);
    auto row =
        static_cast<uint32_t>(place.image * tile.stride[0] + place.d * tile.stride[1] + place.h * tile.stride[2]);
    for (int32_t w = 0; w < tile.axis[2].box && count < kLooked; ++w) {
      rows[count++] = row;
      row += static_cast<uint32_t>(tile.stride[3]);
    }
  }
  const uint32_t words = element_bytes == kWordBytes ? 2 : 1;  // reads of eight positions
  uint32_t reads = 0;
  uint32_t accesses = 0;
  for (std::size_t first = 0; first < count; first += kMatrixRows) {
    BankReaders readers[2];
    int32_t waits[2] = {};
    for (std::size_t i = first; i < std::min(first + kMatrixRows, count); ++i) {
      // A word's eight channels are twice the banks of a row of a matrix.
      for (uint32_t w = 0; w < words; ++w)
        waits[i % words] = std::max(waits[i % words], readers[i % words].add(rows[i] + w));
    }
    for (uint32_t w = 0; w < words; ++w) accesses += 1 + static_cast<uint32_t>(waits[w]);
    reads += words;
  }
  return static_cast<double>(accesses) / reads;
}

int32_t copied_elements(bool aligned, const TileAxis& width, int64_t boxes) {
  constexpr int32_t kElements = kPieceBytes / kWordBytes;
  const bool begins = boxes == 1 || int64_t{width.box} * width.step % kElements == 0;
  return aligned && begins ? kElements : 1;
}

int32_t elements_before(const TileAxis& width, int32_t elements) {
  const int32_t* const end = width.delta + width.components;
  if (!width.split) return *std::min_element(width.delta, end) & (elements - 1);
  int32_t most = 0;
  for (const int32_t* delta = width.delta; delta < end; ++delta) most = std::max(most, *delta & (elements - 1));
  return most;
}

StagedTile make_channel_rows(const std::array<TileAxis, 3>& axis, int32_t images, int32_t pieces, int32_t elements,
                             int32_t before, bool spare) {
  StagedTile tile{};
  for (int i = 0; i < 3; ++i) tile.axis[i] = i == 2 ? of_coordinates(axis[i]) : axis[i];
  for (int i = 0; i < 3; ++i) tile.staged[i] = make_divisor(tile.axis[i].staged());
  tile.images = images;
  tile.pitch = kWordBytes;
  tile.column_step = axis[2].step;
  ChannelRows& rows = tile.channel_rows;
  rows.elements = elements;
  rows.pieces = static_cast<int32_t>(ceil_div(tile.axis[2].length + before, elements));
  const int64_t copied = int64_t{rows.pieces} * elements * kWordBytes + (spare ? kWordBytes : 0);
  // An odd number of pieces: eight channels begin in banks of their own.
  rows.pitch = static_cast<int32_t>((ceil_div(copied, int64_t{kPieceBytes}) | 1) * kPieceBytes);
  set_channel_lines(tile, pieces, {});
  return tile;
}

void pad_lines(StagedTile& tile, BoxOrder order) {
  const ReadPositions positions(tile, make_box_rows(order, tile.images, tile.axis[0].box, tile.axis[1].box));
  std::array<int32_t, 3> padding{};
  tile.conflicts = word_conflicts(tile, positions);
  // In wider boxes eight neighbours lie in one line.
  for (std::size_t i = 3; i-- > 0 && tile.conflicts > 0 && tile.axis[2].box < kMatrixRows;) {
    padding[i] = kPieceBytes / kWordBytes;
    set_channel_lines(tile, tile.pieces, padding);
    const int32_t conflicts = word_conflicts(tile, positions);
    if (conflicts >= tile.conflicts) padding[i] = 0;
    tile.conflicts = std::min(tile.conflicts, conflicts);
  }
  set_channel_lines(tile, tile.pieces, padding);
}

void set_pieces(StagedTile& tile, int32_t pieces) {
  if (tile.has_channel_rows()) {
    set_channel_lines(tile, pieces, tile.line_padding);  // which is the same for any number of channels
    return;
  }
  tile.pieces = pieces;
  tile.pitch = (pieces | 1) * kPieceBytes;
  tile.pieces_of_row = make_divisor(pieces);
}

}  // namespace convt3d::mma
