// Copies of operands with their channels last (core/channels_copy.h); defined in run_channels_copy.cuh, instantiated
// in channels_last_copies.cu.
#pragma once

#include <cstdint>

#include "core/call.h"
#include "core/channels_copy.h"

namespace convt3d {

// What of an operand is copied.
struct CopiedRange {
  int64_t first_image;
  int64_t images;
  DepthRange depths;
};

// `to`: the copy's first image and depth, those of the range.
template <typename T>
void copy_channels_last(const OperandCopy& copy, const CopiedRange& range, ConstTensor tensor, ConstTensor mask,
                        void* to, Stream stream);

}  // namespace convt3d
