// The phase map of one axis: which taps meet which positions, without a division in any loop.
//
// Forward: input position i and tap k meet output position o exactly when i*stride = o + padding - k*dilation. Write
// o = u*stride + e with the residue e in [0, stride). Tap k belongs to residue e iff stride divides
// e + padding - k*dilation, and then i = u + (e + padding - k*dilation)/stride for every u. With
// g = gcd(stride, dilation), the taps of one residue are k0, k0 + stride/g, k0 + 2*stride/g, ... and each step
// lowers the offset by dilation/g. A phase is a residue that has a tap; it is numbered by its first tap k0, so the
// phases of an axis are k0 = 0 .. min(taps, stride/g) - 1, and every other residue holds no term at all.
//
// Input gradient: gx[i] = sum_k w[k] gy[i*stride - padding + k*dilation]. That is the same map with stride 1, negated
// padding and negated dilation, reading with step `stride`: one phase that has every tap.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "core/problem.h"

namespace convt3d {

struct AxisMap {
  int32_t src_size;  // extent of the tensor that is read
  int32_t dst_size;  // extent of the tensor that is written
  int32_t src_step;  // source position = u*src_step + offset
  int32_t dst_step;  // destination position = u*dst_step + residue
  int32_t padding;
  int32_t dilation;
  int32_t taps;         // kernel size along this axis
  int32_t tap_step;     // distance between two taps of one phase
  int32_t offset_step;  // distance between their offsets
  int32_t phases;       // residues that have a tap
};

struct AxisPhase {
  int32_t residue;
  int32_t extent;  // destination positions of this residue: u in [0, extent)
  int32_t first_tap;
  int32_t tap_count;
  int32_t first_offset;  // offset of first_tap
};

CONVT3D_HOST_DEVICE inline AxisPhase axis_phase(const AxisMap& axis, int32_t phase) {
  const int64_t shift = static_cast<int64_t>(phase) * axis.dilation - axis.padding;
  int64_t residue = shift % axis.dst_step;
  if (residue < 0) residue += axis.dst_step;
  AxisPhase result;
  result.residue = static_cast<int32_t>(residue);
  result.extent = residue < axis.dst_size ? static_cast<int32_t>((axis.dst_size - 1 - residue) / axis.dst_step + 1) : 0;
  result.first_tap = phase;
  result.tap_count = (axis.taps - 1 - phase) / axis.tap_step + 1;
  result.first_offset = static_cast<int32_t>((residue - shift) / axis.dst_step);  // exact
  return result;
}

AxisMap forward_axis(const Problem& problem, int axis);
AxisMap input_grad_axis(const Problem& problem, int axis);

}  // namespace convt3d
