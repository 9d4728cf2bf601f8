// How the kernels of a group norm share a tensor [N, C, D, H, W] among blocks, in all of their passes alike. A plan
// follows from sizes and layout alone: not from the device, and not from measured times, so that the same call has the
// same bits on every GPU. Knows nothing of torch or CUDA.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/host_device.h"
#include "core/integer.h"
#include "core/ordered_sum_shape.h"
#include "core/problem.h"

namespace convt3d::norm {

constexpr int kThreads = 256;
constexpr int kSlotsOfLine = 8;     // of 16 bytes, of a line of memory
constexpr int kMostUnroll = 4;      // slots that a thread loads before it uses the first
constexpr int kMomentPlanes = 3;    // of partial results: count, mean, sum of squared deviations
constexpr int kGradientPlanes = 2;  // of partial results: sum of g, sum of g times the normalised value

using Size = std::array<int64_t, 5>;  // of a tensor [N, C, D, H, W]; also its strides, in elements

// Whether the positions of a tensor are equally far apart, as kernels need it, and how far.
bool has_position_stride(const Size& size, const Size& stride);
int64_t position_stride(const Size& size, const Size& stride);

// What is normalised, and how.
struct Shape {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t positions = 0;  // D * H * W
  int64_t groups = 1;     // of the norm, each of channels / groups channels side by side

  CONVT3D_HOST_DEVICE int64_t channels_per_group() const { return channels / groups; }
  static Shape of(const Size& size, int64_t groups) { return {size[0], size[1], size[2] * size[3] * size[4], groups}; }
  CONVT3D_HOST_DEVICE int64_t rows() const { return batch * channels; }
  CONVT3D_HOST_DEVICE int64_t statistics() const { return batch * groups; }
};

// A thread takes slots, 16 bytes of the convolution's output each. Where channels are contiguous, a slot is several
// channels of one position, and a block has `lanes` slots beside each other and steps through positions. Else a slot is
// several positions of one channel, and a block has kThreads / lanes channels and steps through their slots.
struct Plan {
  bool channels_last = false;
  int32_t slot = 0;            // elements
  int32_t lanes = 0;           // threads along the axis that is contiguous
  int32_t others = 0;          // threads across that axis; some threads of a block may be neither
  int64_t channel_blocks = 1;  // of a position, where channels are contiguous
  int64_t units = 0;           // rows of blocks that have the same channels
  int64_t splits = 0;          // blocks that share a unit
  int64_t split_length = 0;    // slots of a row, or positions
  int64_t map_splits = 0;      // the same of a pass that sums nothing, whose blocks have nothing to merge
  int64_t map_split_length = 0;
  int64_t workspace_bytes = 0;  // of the larger of both directions

  CONVT3D_HOST_DEVICE int64_t blocks() const { return units * splits; }
  // How such a pass shares the tensor.
  Plan of_map() const {
    Plan plan = *this;
    plan.splits = map_splits;
    plan.split_length = map_split_length;
    return plan;
  }
  // Of the gradients of the norm's weight and bias.
  OrderedSumShape sum_shape(const Shape& shape) const { return ordered_sum_shape(kOrderedSumThreads, shape.channels); }
};

// How blocks share moments that the convolution's epilogue has left, [n][part][c]: a block has `lanes` channels side by
// side and steps through its split's parts.
struct CollectPlan {
  int32_t lanes = 0;
  int32_t others = 0;  // threads of a channel
  int64_t channel_blocks = 1;
  int64_t parts = 0;
  int64_t splits = 0;
  int64_t split_parts = 0;
  int64_t workspace_bytes = 0;  // of what replaces the pass over the tensor

  CONVT3D_HOST_DEVICE int64_t blocks(int64_t batch) const { return batch * channel_blocks * splits; }
};

// Slots of a row, at most: they are counted from a line's begin on, in which the row may begin with its last element.
constexpr int64_t most_slots_of_row(int64_t positions, int64_t slot) {
  return ceil_div(positions + kSlotsOfLine * slot - 1, slot);
}

// The layout is that of the strides of what is normalised.
Plan make_plan(const Size& size, const Size& stride, int64_t groups, DataType dtype);
CollectPlan make_collect_plan(const Shape& shape, int64_t parts);
// The workspace of a forward. `parts`: how many of each image and channel the epilogue has left moments of, 0 where the
// norm has a pass of its own.
int64_t forward_workspace_bytes(const Shape& shape, const Plan& plan, int64_t parts);

int64_t partial_bytes(const Shape& shape, int64_t splits, int planes);

std::string to_string(const Plan& plan);

}  // namespace convt3d::norm
