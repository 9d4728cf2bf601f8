// The taps of a weight gradient along one axis, shared out over blocks. As data.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "device/small_quotient.h"

namespace convt3d {

// Tap k meets input position i at i*step - padding + k*dilation of grad_output. Taps whose offsets have the same
// remainder by `step` are of one residue: they read the same positions of every `step`-th, each a constant number of
// these further. A part has up to `most` neighbours of one residue. Parts of neighbouring residues follow each
// other; residues that have a tap less are the last ones.
//
// Where the tile of grad_output has all positions, and not every `step`-th, all taps count as of one residue.
struct WgmmaGradTaps {
  int32_t taps;  // of all parts
  int32_t step;  // the problem's stride
  int32_t padding;
  int32_t dilation;
  int32_t residues;  // that have taps; a tap to the next of its residue
  int32_t rows;      // rows of the tile from where an input position reads to where the next one does: 1 or `step`
  int32_t shift;     // rows of the tile from where a tap reads to where the next one of its part does
  int32_t most;      // taps of a part
  int32_t parts;

  CONVT3D_HOST_DEVICE int32_t first(int32_t part) const {
    if (residues == 1) return part * most;
    return part + small_quotient(part, residues) * (most - 1) * residues;
  }
  CONVT3D_HOST_DEVICE int32_t count(int32_t part) const {
    int32_t left = taps - first(part);
    if (residues != 1) left = small_quotient(left + residues - 1, residues);
    return left < most ? left : most;
  }
  // Where the first tap of a part reads for input position 0.
  CONVT3D_HOST_DEVICE int32_t origin(int32_t part) const { return first(part) * dilation - padding; }
  // Rows that a part reads of the tile, beside those of its first tap.
  CONVT3D_HOST_DEVICE int32_t reach() const { return (most - 1) * shift; }
  // Rows of the tile for so many input positions.
  CONVT3D_HOST_DEVICE int32_t extent(int32_t positions) const { return (positions - 1) * rows + 1 + reach(); }
  // Every so many positions of grad_output are a row.
  CONVT3D_HOST_DEVICE int32_t every() const { return step / rows; }
};

}  // namespace convt3d
