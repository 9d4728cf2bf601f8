// The tile in shared memory: [panel][position][32, 64 or 128 bytes of channels], in wgmma's swizzle of that width. The
// swizzle follows the address, so that a tap is a shift of the operand's address by whole positions. (N-major panels,
// see load.h, have lines of positions for positions.) Where not all panels of a tile fit, they come in chunks.
#pragma once

#include <cstdint>
#include <optional>

#include "core/host_device.h"
#include "engines/wgmma/plan/arrangement.h"
#include "engines/wgmma/plan/load.h"
#include "engines/wgmma/plan/product.h"
#include "engines/wgmma/plan/tile.h"

namespace convt3d {

struct WgmmaPanels {
  int32_t position_bytes;  // of one position: 32, 64 or 128
  int32_t fold_bytes;      // of one fold of a panel
  int32_t panel_bytes;     // of all folds
  int32_t term_bytes;      // of a chunk, in one term
  int32_t tile_bytes;      // of a chunk, in all terms: a stage of the tiles' pipeline
  int32_t count;           // panels of all channels of a group
  int32_t in_chunk;
  int32_t tap_steps;  // K steps of one tap in a chunk

  CONVT3D_HOST_DEVICE int32_t chunks() const { return count / in_chunk; }
  // Of N-major panels: one position with all channels of a chunk.
  CONVT3D_HOST_DEVICE int32_t n_major_position_bytes() const { return tap_steps * kWgmmaOperandBytes; }
};

// Nothing where channels do not divide so, or a tile has more than `shared_bytes`.
std::optional<WgmmaPanels> make_panels(int element_bytes, int64_t shared_bytes, const WgmmaProduct& product,
                                       const WgmmaArrangement& arrangement, const WgmmaTile& tile,
                                       const WgmmaLoad& load, int position_bytes, int chunks);

}  // namespace convt3d
