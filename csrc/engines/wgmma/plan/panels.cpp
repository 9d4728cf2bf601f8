#include "engines/wgmma/plan/panels.h"

#include "core/integer.h"
#include "device/swizzle.h"

namespace convt3d {

std::optional<WgmmaPanels> make_panels(int element_bytes, int64_t shared_bytes, const WgmmaProduct& product,
                                       const WgmmaArrangement& arrangement, const WgmmaTile& tile,
                                       const WgmmaLoad& load, int position_bytes, int chunks) {
  const int64_t positions = (int64_t{tile.halo_positions()} << tile.image_log) + tile.zeros;
  const int64_t channel_bytes = round_up(int64_t{product.in_channels} * element_bytes, kWgmmaOperandBytes);
  if (channel_bytes % position_bytes != 0 || (load.n_major() && position_bytes != kWgmmaOperandBytes)) {
    return std::nullopt;
  }
  const int64_t count = channel_bytes / position_bytes;
  const int64_t fold_bytes = round_up(positions * position_bytes, kSwizzleBytes);
  const int64_t panel_bytes = arrangement.folds() * fold_bytes;
  if (panel_bytes > shared_bytes || count % chunks != 0) return std::nullopt;
  const int64_t in_chunk = count / chunks;
  const int64_t tile_bytes = product.terms * in_chunk * panel_bytes;
  if (tile_bytes > shared_bytes) return std::nullopt;
  // A box has all channels of a chunk.
  if (load.n_major() && in_chunk * kWgmmaNMajorChannels > kMostBoxExtent) return std::nullopt;
  WgmmaPanels panels;
  panels.position_bytes = position_bytes;
  panels.fold_bytes = static_cast<int32_t>(fold_bytes);
  panels.panel_bytes = static_cast<int32_t>(panel_bytes);
  panels.term_bytes = static_cast<int32_t>(in_chunk * panel_bytes);
  panels.tile_bytes = static_cast<int32_t>(tile_bytes);
  panels.count = static_cast<int32_t>(count);
  panels.in_chunk = static_cast<int32_t>(in_chunk);
  panels.tap_steps = static_cast<int32_t>(in_chunk * position_bytes / kWgmmaOperandBytes);
  return panels;
}

}  // namespace convt3d
