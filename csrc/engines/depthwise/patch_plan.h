// The plan of the depthwise engine's patches: gradients of layers whose groups have one channel each, with the
// commonest square kernels of height and width. A thread owns a patch of neighbouring positions and reads what their
// taps meet into registers, straight from the L1; each number that it reads serves all products that need it. Of 27
// taps these may be the products of both gradients, by a kernel of its own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "core/divisor.h"
#include "core/operands.h"
#include "core/operator.h"
#include "core/ordered_sum_shape.h"
#include "core/problem.h"

namespace convt3d {

constexpr int kDepthwisePatchThreads = 128;  // threads of a block of the input gradient
// Most threads of a block of the weight gradient: two blocks share a multiprocessor's registers.
constexpr int depthwise_patch_sum_threads(int taps) { return taps > 3 ? 224 : 256; }
constexpr int kDepthwisePatchDepthTaps = 7;     // at most
constexpr int kDepthwiseTogetherThreads = 128;  // most threads of a block that computes all gradients
constexpr int kDepthwiseTogetherTaps = 3;       // of each axis
constexpr int kDepthwisePatchBytes = 48 * 1024;
constexpr int kDepthwisePatchSumLanes = 16;  // threads that share one sum of partial sums

// Taps and stride of height and width.
enum class DepthwisePatchTaps : int { kKernel3Stride1, kKernel3Stride2, kKernel5Stride2, kKernel7Stride2 };

template <int kTapsOf, int kStrideOf>
struct PatchTaps {
  static constexpr int kTaps = kTapsOf;
  static constexpr int kStride = kStrideOf;
  static constexpr int kPadding = (kTapsOf - 1) / 2;  // along the width, where rows are read as vectors
  static constexpr int kSets = (kTapsOf + kStrideOf - 1) / kStrideOf;  // positions that meet one row of the source
  static constexpr int kPaddedTaps = kTapsOf <= 4 ? 4 : 8;             // a row of weights in shared memory
  // Taps that reach each output once, taken together, where the padding is half the kernel: with these the bias's
  // gradient is summed.
  static constexpr bool is_in_middle(int tap) { return tap >= kPadding && tap < kPadding + kStrideOf; }
  // The i-th tap in an order in which neighbours share all but one of the source's rows.
  static constexpr int tap(int i) {
    const int even = (kTapsOf + kStrideOf - 1) / kStrideOf;
    return kStrideOf == 1 ? i : i < even ? 2 * i : 2 * (i - even) + 1;
  }
};

// The taps of `taps`, as a value passed to `function`.
template <typename Function>
void with_patch_taps(DepthwisePatchTaps taps, Function&& function) {
  switch (taps) {
    case DepthwisePatchTaps::kKernel3Stride1:
      return function(PatchTaps<3, 1>());
    case DepthwisePatchTaps::kKernel3Stride2:
      return function(PatchTaps<3, 2>());
    case DepthwisePatchTaps::kKernel5Stride2:
      return function(PatchTaps<5, 2>());
    case DepthwisePatchTaps::kKernel7Stride2:
      return function(PatchTaps<7, 2>());
  }
}

// How a thread reads a row of grad_output.
enum class DepthwisePatchAccess : int {
  kRows,      // vectors along the width, and the elements beside them
  kElements,  // one by one along the width, of any alignment
  kChannels,  // vectors of channels, at one place of the width after the other
};

// Channels, and positions along height and width, of a thread. `sums`: of the weight gradient, which has a sum for each
// tap in registers.
constexpr int depthwise_patch_channels(DepthwisePatchAccess access, int element_bytes, int taps, bool sums) {
  return access != DepthwisePatchAccess::kChannels ? 1 : taps <= 3 ? 8 / element_bytes : sums ? 1 : 2;
}
constexpr int depthwise_patch_height(DepthwisePatchAccess access) {
  return access == DepthwisePatchAccess::kChannels ? 2 : 4;
}
constexpr int depthwise_patch_width(DepthwisePatchAccess access, int element_bytes, int taps, int stride, bool sums) {
  switch (access) {
    case DepthwisePatchAccess::kRows:
      return stride == 1 && element_bytes == 2 ? 8 : sums && element_bytes == 4 && taps > 5 ? 2 : 4;
    case DepthwisePatchAccess::kElements:
      return 1;
    case DepthwisePatchAccess::kChannels:
      break;
  }
  return !sums && (taps > 3) == (element_bytes == 2) ? 4 : 2;
}
// The same of all gradients at once.
constexpr int depthwise_together_channels(DepthwisePatchAccess access, int element_bytes) {
  return access == DepthwisePatchAccess::kChannels ? 4 / element_bytes : 1;
}
constexpr int depthwise_together_width(DepthwisePatchAccess access, int element_bytes, int stride) {
  switch (access) {
    case DepthwisePatchAccess::kRows:
      return stride == 2 && element_bytes == 4 ? 2 : 4;
    case DepthwisePatchAccess::kElements:
      return 1;
    case DepthwisePatchAccess::kChannels:
      break;
  }
  return 2;
}
// Elements of a vector of a row.
constexpr int depthwise_patch_vector(int element_bytes, int width, int stride) {
  return width * stride * element_bytes > 16 ? 16 / element_bytes : width * stride;
}

struct DepthwisePatchPlan {
  Operator op;  // of all gradients kBackward, with the bias's or without
  DepthwisePatchTaps taps;
  DepthwisePatchAccess access;
  int64_t batch;
  int32_t channels;
  int32_t depth_taps;
  int32_t depth_stride;
  std::array<int32_t, 3> padding;
  std::array<int32_t, 3> size;         // of the input
  std::array<int32_t, 3> source_size;  // of grad_output
  int32_t patch_channels;              // of a thread
  int32_t patch_width;
  int32_t lanes;  // neighbouring threads that own neighbouring channels, a power of two
  int32_t lane_shift;
  int32_t channel_tiles;  // blocks along the channels
  // A thread's items are numbered: of the input gradient by (depth, patch of the height, of the width), in each image;
  // of a walk by (image, depth, segment of the height, patch of the width).
  std::array<int32_t, 3> units;  // depth; patches or segments of the height; patches of the width
  Divisor by_units[3];
  int32_t items;
  int32_t threads;      // of a block
  int32_t slots;        // items of a block at a time
  int32_t steps;        // items of a thread, one after the other
  int32_t item_tiles;   // blocks along the items
  Divisor by_taps;      // of the input's gradient: all taps of a channel
  bool result_vectors;  // of the input's gradient: a thread's neighbours are stored as one
  // What follows is of kernels that walk along the height, for the weight's gradient.
  int32_t whole_patches;  // patches of the width before those of the single positions left
  int32_t segment;        // rows of the input that a thread walks along
  int32_t warp_planes;    // taps of the depth that a warp has the sums of
  int32_t parts;          // warps of a block that share these sums
  uint32_t bias_taps;     // bit k: with tap k of the depth rows are summed for the bias's gradient; 0: with none
  int32_t sums_offset;    // floats of shared memory before the sums
  int64_t shared_bytes;
  double clocks;  // of all blocks together, by a model: a multiprocessor at work alone

  CONVT3D_HOST_DEVICE int32_t tile_channels() const { return lanes * patch_channels; }
  CONVT3D_HOST_DEVICE bool walks() const { return op != Operator::kInputGrad; }
  CONVT3D_HOST_DEVICE int32_t warps() const { return parts * depth_taps / warp_planes; }  // of a block
  // Floats from a tap's weights to the next one's, where channels are contiguous.
  CONVT3D_HOST_DEVICE int32_t weight_pitch() const { return tile_channels() + patch_channels; }
  int64_t blocks() const { return int64_t{channel_tiles} * item_tiles * (walks() ? 1 : batch); }
  // The bias's gradient is summed beside that of the weight.
  CONVT3D_HOST_DEVICE bool has_bias() const { return bias_taps != 0; }
  int64_t partial_elements() const;  // of the weight's gradient; behind these are the bias's, [split][channel]
  int64_t workspace_bytes() const {
    const int64_t bias = has_bias() ? int64_t{item_tiles} * channels : 0;
    return (partial_elements() + bias) * static_cast<int64_t>(sizeof(float));
  }
  // Of partial sums.
  OrderedSumShape sum_shape() const {
    return ordered_sum_shape(kDepthwisePatchSumLanes, partial_elements() / item_tiles);
  }
};

// None where height and width have other taps, or there is a mask, besides where tiles have none. Of a backward, all
// gradients at once. `sums_bias`: of the weight gradient and of a backward, with the bias's; then none, too, where the
// taps in the middle do not reach all outputs (bias_taps.h).
std::optional<DepthwisePatchPlan> plan_depthwise_patches(Operator op, const Problem& problem, DataType dtype,
                                                         const Operands& operands, bool sums_bias);
// Whether all taps of a channel are equally far apart in a weight's gradient with these strides: one axis of its sums.
inline bool joins_taps(const Problem& problem, const std::array<int64_t, 5>& stride) {
  return stride[3] == problem.kernel_size[2] * stride[4] && stride[2] == problem.kernel_size[1] * stride[3];
}
std::string to_string(DepthwisePatchTaps taps);
std::string to_string(DepthwisePatchAccess access);
std::string to_string(const DepthwisePatchPlan& plan);

}  // namespace convt3d
