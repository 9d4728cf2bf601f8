// The swizzle of rows of 32, 64 or 128 bytes in shared memory, as TMA writes and wgmma reads them: within 1024 bytes,
// pieces of 16 bytes are exchanged, so that the same piece of eight rows lies in eight different banks.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace convt3d {

constexpr int32_t kSwizzleBytes = 1024;  // the pattern repeats after so many bytes, to which swizzled memory is aligned

// Which bits of an address the swizzle of such rows may flip; 0 of rows of 16 bytes, which have none.
CONVT3D_HOST_DEVICE constexpr uint32_t swizzle_mask(int32_t row_bytes) {
  return static_cast<uint32_t>(row_bytes - 16) & 0x70;
}
// The length of rows that have this mask; 0: no swizzle.
CONVT3D_HOST_DEVICE constexpr int32_t swizzled_row_bytes(uint32_t mask) {
  return mask == 0 ? 0 : static_cast<int32_t>(mask) + 16;
}
// The bits that are flipped of the byte at `offset` from a multiple of kSwizzleBytes.
CONVT3D_HOST_DEVICE constexpr uint32_t swizzle_flip(uint32_t offset, uint32_t mask) { return offset >> 3 & mask; }
// Where that byte lies.
CONVT3D_HOST_DEVICE constexpr uint32_t swizzled(uint32_t offset, uint32_t mask) {
  return offset ^ swizzle_flip(offset, mask);
}

}  // namespace convt3d
