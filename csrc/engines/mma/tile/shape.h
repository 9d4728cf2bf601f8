// The tile of a product that a block computes, positions x channels, and its warps.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace convt3d::mma {

// `Wide`: warps are as wide as the tile, so that each position is read by one warp. `Eight`: two warps on a
// scheduler wait less for their own instructions than one of four that is larger, and read more.
enum class Shape : int {
  k256x8,
  k256x16,
  k128x32,
  k256x32,
  k64x64,
  k128x64Wide,
  k128x64Eight,
  k256x64Eight,
  k128x128,
  k128x128Eight,
  k64x64Wide
};
constexpr Shape kShapes[] = {Shape::k256x8,   Shape::k256x16,      Shape::k128x32,      Shape::k256x32,
                             Shape::k64x64,   Shape::k128x64Wide,  Shape::k128x64Eight, Shape::k256x64Eight,
                             Shape::k128x128, Shape::k128x128Eight};

// The loading warps of a correlation's block, beside those that multiply.
constexpr int kSourceWarps = 3;
constexpr int kWeightWarps = 1;
constexpr int kSourceThreads = 32 * kSourceWarps;

constexpr int kRegisters = 65536;  // registers of a multiprocessor

struct ShapeExtent {
  int32_t warps_m;
  int32_t warps_n;
  int32_t warp_m;  // positions of a warp
  int32_t warp_n;  // channels of a warp
  int32_t blocks;  // blocks that should fit a multiprocessor, for which the registers are shared out

  CONVT3D_HOST_DEVICE constexpr int32_t m() const { return warps_m * warp_m; }
  CONVT3D_HOST_DEVICE constexpr int32_t n() const { return warps_n * warp_n; }
  CONVT3D_HOST_DEVICE constexpr int32_t warps() const { return warps_m * warps_n; }  // multiplying warps
  CONVT3D_HOST_DEVICE constexpr int32_t registers() const { return kRegisters / (threads() * blocks); }  // of a thread
  CONVT3D_HOST_DEVICE constexpr int32_t threads() const { return (warps() + kSourceWarps + kWeightWarps) * 32; }
};

// `terms`: numbers that stand for one in the tensor cores (device/two_terms.cuh). With two terms each warp has sums of
// two levels.
CONVT3D_HOST_DEVICE constexpr ShapeExtent shape_extent(Shape shape, int terms) {
  switch (shape) {
    case Shape::k256x8:
      return {4, 1, 64, 8, 2};
    case Shape::k256x16:
      return {4, 1, 64, 16, 2};
    case Shape::k128x32:
      return {4, 1, 32, 32, 2};
    case Shape::k256x32:
      return {4, 1, 64, 32, 2};
    case Shape::k64x64:
      return {2, 2, 32, 32, 2};
    case Shape::k64x64Wide:
      return {4, 1, 16, 64, 2};
    case Shape::k128x64Wide:
      return {4, 1, 32, 64, terms == 1 ? 2 : 1};
    case Shape::k128x64Eight:
      return {4, 2, 32, 32, 1};
    case Shape::k256x64Eight:
      return {4, 2, 64, 32, 1};
    case Shape::k128x128:
      return {2, 2, 64, 64, 1};
    case Shape::k128x128Eight:
      return {2, 4, 64, 32, 1};
  }
  return {};
}
// How many pieces of 16 bytes, and of how many splits, are on their way to a thread that adds sums of other blocks. A
// second split's are where that leaves registers.
CONVT3D_HOST_DEVICE constexpr int32_t sum_pieces(const ShapeExtent& extent) {
  const int32_t pieces = extent.m() * extent.n() / (extent.warps() * 32 * 4);
  return pieces < 8 ? pieces : 8;
}
CONVT3D_HOST_DEVICE constexpr int32_t sum_splits(const ShapeExtent& extent) {
  const int32_t sums = extent.m() * extent.n() / (extent.warps() * 32);
  return sums + 2 * 4 * sum_pieces(extent) < extent.registers() ? 2 : 1;
}

// Whether a thread has registers for what two steps of K multiply, beside its sums and what else it knows.
CONVT3D_HOST_DEVICE constexpr bool has_two_steps(const ShapeExtent& extent, int terms, bool channel_rows) {
  const int32_t others = channel_rows ? 54 : 44;
  const int32_t rows = extent.warp_m / 16;
  const int32_t pieces = extent.warp_n > 16 ? extent.warp_n / 16 : 1;
  const int32_t sums = extent.warp_m * extent.warp_n / 32;
  return terms == 1 && sums + 2 * 4 * (rows + pieces) + others <= extent.registers();
}

// The shapes of a correlation. Channel rows are read word by word: there large warps spare reads; elsewhere wide ones
// have too few registers, and large ones wait for their own instructions. The largest do not have the registers for
// sums of two levels. Further ones are left out that would hardly ever be expected to be faster: each is a kernel for
// each type and architecture. `pairs`: of channel rows whose words are two elements.
constexpr bool has_shape(Shape shape, int terms, bool channel_rows, bool pairs) {
  switch (shape) {
    case Shape::k128x32:
      return !pairs;
    case Shape::k64x64:
      return !channel_rows || (terms == 1 && !pairs);
    case Shape::k128x64Wide:
      return terms == 1 && channel_rows && !pairs;
    case Shape::k256x32:
      return terms == 1 && (!channel_rows || pairs);
    case Shape::k128x128:
      return terms == 1 && channel_rows;
    case Shape::k256x64Eight:
    case Shape::k128x128Eight:
      return terms == 1 && !channel_rows;
    default:
      return true;
  }
}

// Which of a warp's channels the lanes 4g + lane hold in columns 2*lane and 2*lane + 1 of fragment `fragment` of its
// sums. Neighbouring channels are in one lane, as many as 16 bytes have, where `joined` fragments share them, a power
// of two.
CONVT3D_HOST_DEVICE constexpr int32_t first_channel_of(int32_t fragment, int32_t lane, int32_t joined) {
  const int32_t among = fragment & (joined - 1);
  return (fragment - among) * 8 + (lane * joined + among) * 2;
}
// Fragments that share the channels of a lane's store.
CONVT3D_HOST_DEVICE constexpr int32_t joined_fragments(int32_t warp_n, int32_t element_bytes) {
  const int32_t most = 8 / element_bytes;
  return warp_n / 8 < most ? warp_n / 8 : most;
}
// Neighbouring channels that a lane has then.
CONVT3D_HOST_DEVICE constexpr int32_t lane_channels(int32_t warp_n, int32_t element_bytes) {
  return 2 * joined_fragments(warp_n, element_bytes);
}

}  // namespace convt3d::mma
