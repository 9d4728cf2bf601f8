// Launches the copies of operands with their channels last.
#pragma once

#include <algorithm>

#include "core/integer.h"
#include "device/channels_last_copies.h"
#include "device/channels_last_copy.cuh"
#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "device/overlap.cuh"

namespace convt3d {

template <typename T>
ChannelsCopyParams<T> channels_copy_params(const OperandCopy& copy, const CopiedRange& range, ConstTensor tensor,
                                           ConstTensor mask, void* to) {
  constexpr int64_t kInPiece = 16 / sizeof(T);
  const Int3 size = {range.depths.count, copy.size[1], copy.size[2]};
  ChannelsCopyParams<T> params{};
  params.source = make_source<T>(tensor, mask, size, {false, copy.quads});
  const auto begin = [&](const Strides& stride) {
    return range.first_image * stride.n + range.depths.first * stride.d;
  };
  params.source.data += begin(params.source.stride);
  if (copy.masked) params.source.mask += begin(params.source.mask_stride);
  params.copy = static_cast<uint4*>(to);
  params.copy_image = copy.image_positions();
  params.pieces = static_cast<int32_t>(copy.groups * copy.padded / kInPiece);
  params.channels = copy.channels;
  params.pieces_of_group = make_divisor(copy.padded / kInPiece);
  params.padded = copy.padded != copy.channels;
  params.transposes = copy.way == CopyWay::kStrips;
  params.beside = copy.beside;
  if (params.transposes) {
    const int64_t rows = copy.run_axes == 1 ? size[1] : 1;
    const int64_t depths = copy.run_axes == 3 ? 1 : size[0];
    const int64_t run = size[0] * size[1] * size[2] / (rows * depths);
    params.vectors = copy.vectors;
    params.run = static_cast<int32_t>(run);
    params.strips_of_run = make_divisor(ceil_div(run, kInPiece));
    params.runs_of_depth = make_divisor(rows);
    params.depths = make_divisor(depths);
    params.count = static_cast<int32_t>(range.images * depths * rows * ceil_div(run, kInPiece));
    while (params.log_pieces < 3 && 1 << params.log_pieces < params.pieces) ++params.log_pieces;
    params.piece_blocks = make_divisor(ceil_div(params.pieces, int64_t{1} << params.log_pieces));
  } else {
    const int64_t positions = range.images * size[0] * size[1] * size[2];
    params.pieces_first = copy.way == CopyWay::kGatheredPieces;
    params.all_pieces = make_divisor(params.pieces);
    params.positions = make_divisor(positions);
    for (std::size_t i = 0; i < 3; ++i) params.size[i] = make_divisor(size[i]);
    params.count = static_cast<int32_t>(positions * params.pieces);
  }
  return params;
}

template <typename T>
void copy_channels_last(const OperandCopy& copy, const CopiedRange& range, ConstTensor tensor, ConstTensor mask,
                        void* to, Stream stream) {
  if (range.depths.count == 0) return;
  const ChannelsCopyParams<T> params = channels_copy_params<T>(copy, range, tensor, mask, to);
  const int64_t strips = (int64_t{kCopyPieces} >> params.log_pieces) / (16 / static_cast<int64_t>(sizeof(T)));
  const int64_t blocks = params.transposes ? ceil_div(params.count, strips) * params.piece_blocks.value
                                           : ceil_div(params.count, kCopyPieces);
  void (*const kernel)(ChannelsCopyParams<T>) = convt3d_channels_last_copy<T>;
  launch("channels-last copy", kernel, blocks, kCopyThreads, stream, params, kCopySharedBytes,
         overlapping_order("channels-last copy", reinterpret_cast<const void*>(kernel)));
}

}  // namespace convt3d
