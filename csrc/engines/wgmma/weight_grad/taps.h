// The taps of a weight gradient along one axis, shared out over blocks. As data.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace convt3d {

// Tap k meets input position i at i*step - padding + k*dilation of grad_output. Taps whose offsets have the same
// remainder by `step` are of one residue: they read the same positions of every `step`-th, each a constant number of
// these further. A part has up to `most` neighbours of one residue. Parts of neighbouring residues follow each
// other; residues that have a tap less are the last ones.
struct WgmmaGradTaps {
  int32_t taps;  // of all parts
  int32_t step;  // the problem's stride
  int32_t padding;
  int32_t dilation;
  int32_t residues;  // that have taps; a tap to the next of its residue
  int32_t shift;     // positions of a residue from where a tap reads to where the next one does
  int32_t most;      // taps of a part
  int32_t parts;

  CONVT3D_HOST_DEVICE int32_t first(int32_t part) const { return part % residues + part / residues * most * residues; }
  CONVT3D_HOST_DEVICE int32_t count(int32_t part) const {
    const int32_t left = (taps - first(part) + residues - 1) / residues;
    return left < most ? left : most;
  }
  // Where the first tap of a part reads for input position 0.
  CONVT3D_HOST_DEVICE int32_t origin(int32_t part) const { return first(part) * dilation - padding; }
  // Positions that a part reads beside one for each input position.
  CONVT3D_HOST_DEVICE int32_t reach() const { return (most - 1) * shift; }
};

}  // namespace convt3d
