// What the strides and addresses of the operands decide about loading and storing.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/access.h"
#include "core/channels_copy.h"
#include "core/host_device.h"
#include "core/integer.h"

namespace convt3d::mma {

// How pieces of 16 bytes of channels come into a staged tile: copied past the registers; copied so with the mask
// beside them, which is applied in shared memory; copied in parts of 8 or 4 bytes, where channels are no whole pieces
// or begin between two; gathered element by element, neighbouring threads along the channels or along the width; from
// rows along the width that are copied as they are and transposed in shared memory. Rows of 32 bits are copied as they
// are into a tile of channel rows (tile.h), too, with the mask beside them or without.
enum class LoadWay : int { kCopy, kCopyMasked, kCopyParts, kChannels, kWidth, kRows, kChannelRows, kChannelRowsMasked };

// Asynchronous copies ("cp.async"), past the registers: what is begun arrives later.
inline bool copies(LoadWay way) { return way != LoadWay::kChannels && way != LoadWay::kWidth; }
// All that is copied goes into its place in the tile, and nothing is left to do when it has arrived.
CONVT3D_HOST_DEVICE inline bool copies_only(LoadWay way) {
  return way == LoadWay::kCopy || way == LoadWay::kCopyParts || way == LoadWay::kChannelRows;
}
// The mask is copied, too: beside the tile, where it lies like the tile.
CONVT3D_HOST_DEVICE inline bool copies_masked(LoadWay way) {
  return way == LoadWay::kCopyMasked || way == LoadWay::kChannelRowsMasked;
}
CONVT3D_HOST_DEVICE inline bool has_channel_rows(LoadWay way) {
  return way == LoadWay::kChannelRows || way == LoadWay::kChannelRowsMasked;
}

inline const char* to_string(LoadWay way) {
  switch (way) {
    case LoadWay::kCopy:
      return "copy";
    case LoadWay::kCopyMasked:
      return "copy_masked";
    case LoadWay::kCopyParts:
      return "copy_parts";
    case LoadWay::kChannels:
      return "channels";
    case LoadWay::kWidth:
      return "width";
    case LoadWay::kRows:
      return "rows";
    case LoadWay::kChannelRows:
      return "channel_rows";
    case LoadWay::kChannelRowsMasked:
      return "channel_rows_masked";
  }
  return "unknown";
}

// Bytes of neighbouring channels that are copied at once: as many as begin at multiples of them at every position, 16,
// 8 or 4; 0 where not even 4 do. `channels`: of a group.
inline int32_t copied_part(const OperandTraits& source, int64_t element_bytes, int64_t channels) {
  // What is a copy already (core/channels_copy.h) has whole pieces, with zeros behind the channels.
  if (source.is_copy) channels = round_up(channels, kCopiedPiece / element_bytes);
  for (int64_t part = 16; part >= std::max<int64_t>(4, element_bytes); part /= 2) {
    if (has_pieces(source, element_bytes, channels, part / element_bytes)) return static_cast<int32_t>(part);
  }
  return 0;
}

// `channels`: of a group; `channel_rows`: the tile may have them.
inline LoadWay load_way(const OperandTraits& source, const OperandTraits& mask, int64_t element_bytes, int64_t channels,
                        bool channel_rows) {
  const int64_t piece = 16 / element_bytes;
  const int32_t part = copied_part(source, element_bytes, channels);
  const bool pieces = part == piece * element_bytes;
  if (pieces && !mask.present) return LoadWay::kCopy;
  if (pieces && has_pieces(mask, element_bytes, channels, piece)) return LoadWay::kCopyMasked;
  if (channel_rows && element_bytes == 4 && source.stride[4] == 1) {
    if (!mask.present) return LoadWay::kChannelRows;
    if (mask.stride[4] == 1) return LoadWay::kChannelRowsMasked;
  }
  // Rows are read from multiples of 16 bytes on, and nothing before the tensor is.
  const auto has_rows = [](const OperandTraits& tensor) { return tensor.stride[4] == 1 && tensor.address == 0; };
  if (has_rows(source) && (!mask.present || has_rows(mask))) return LoadWay::kRows;
  if (part != 0 && !mask.present) return LoadWay::kCopyParts;
  return source.stride[1] == 1 ? LoadWay::kChannels : LoadWay::kWidth;
}

// Where raw rows begin, of the source and of its mask.
enum class RowsBegin : int {
  kWhole,  // at multiples of 16 bytes, and they are whole pieces
  kAlike,  // all channels of a line as far past such a multiple
  kAnywhere,
};

// `width`: elements of a row.
inline RowsBegin rows_begin(const OperandTraits& source, const OperandTraits& mask, int64_t element_bytes,
                            int64_t width) {
  const int64_t piece = 16 / element_bytes;
  const auto is_whole = [&](const OperandTraits& tensor) {
    return has_row_pieces(tensor, element_bytes, width, piece);
  };
  if (is_whole(source) && (!mask.present || is_whole(mask))) return RowsBegin::kWhole;
  bool alike = source.stride[1] % piece == 0;
  for (const int i : {0, 1, 2, 3}) alike = alike && (!mask.present || (source.stride[i] - mask.stride[i]) % piece == 0);
  return alike && (!mask.present || source.address == mask.address) ? RowsBegin::kAlike : RowsBegin::kAnywhere;
}

// The operands of a correlation, as far as a plan looks at them.
struct Tensors {
  OperandTraits source;
  OperandTraits mask;  // may be absent
  OperandTraits destination;
};

// Neighbouring channels of the destination that a thread can store at once; 1: they are not contiguous. `channels`: of
// a group.
inline int32_t stored_channels(const OperandTraits& destination, int64_t element_bytes, int64_t channels) {
  auto count = static_cast<int32_t>(16 / element_bytes);
  while (count > 1 && !has_pieces(destination, element_bytes, channels, count)) count /= 2;
  return count;
}

// Neighbouring channels of the destination that a lane, which has `of_lane`, stores at once: all of them, those of a
// word or one; 0 where channels are not neighbours, or positions along the width are as well. `channels`: of a group.
inline int32_t channel_vector(const OperandTraits& destination, int64_t element_bytes, int64_t channels,
                              int32_t of_lane) {
  const int32_t most = stored_channels(destination, element_bytes, channels);
  if (most >= of_lane) return of_lane;
  if (destination.stride[1] != 1 || destination.stride[4] == 1) return 0;
  const auto word = static_cast<int32_t>(4 / element_bytes);
  return most >= word ? word : 1;
}

// Neighbouring elements of its rows along the width, of so many elements, that a thread can store at once.
inline int32_t row_vector(const OperandTraits& destination, int64_t element_bytes, int64_t width) {
  auto count = static_cast<int32_t>(16 / element_bytes);
  while (count > 1 && !has_row_pieces(destination, element_bytes, width, count)) count /= 2;
  return count;
}

}  // namespace convt3d::mma
