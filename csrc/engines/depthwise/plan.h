// The plan of the depthwise engine: groups of so few channels that the time goes into memory, not into products.
// Every output is computed by one thread from the taps of its residues (phase_map.h), so that none needs a fill.
// - Rows (width contiguous in the output): a thread owns a vector of neighbouring outputs along the width, in one row
//   or, where depth and height have the same taps, in the four rows of their residues, which read the same input.
// - Channels (channels contiguous): a thread owns a vector of channels at several positions along the width, in one
//   row or four.
// Either comes with the taps along the width fixed at compile time, for common kernels, or with any taps.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "core/divisor.h"
#include "core/operands.h"
#include "core/phase_map.h"
#include "core/problem.h"

namespace convt3d {

constexpr int kDepthwiseMaxStride = 8;
constexpr int kDepthwiseMaxProducts = 4;  // input times output channels of a group
constexpr int kDepthwiseThreads = 128;
constexpr int kDepthwiseRowStageBytes = kDepthwiseThreads * (16 + 8 + 4);  // outputs on their way, and whereto
constexpr int kDepthwiseRows = 4;  // outputs of a thread along the height, width contiguous and any taps

// Stride, kernel size and padding (up to a multiple of the stride) along the width, where the kernel knows them.
enum class DepthwiseWidth : int {
  kAny,
  kStride1Kernel3,         // padding 1 + any
  kStride2Kernel2,         // even padding
  kStride2Kernel3,         // odd padding
  kStride2Kernel3Shifted,  // even padding
  kStride2Kernel4,         // odd padding
};

// Taps along the width, known to the compiler. Offsets are those of padding kPadding.
template <int kStrideOf, int kTapsOf, int kPaddingOf>
struct WidthTaps {
  static constexpr int kStride = kStrideOf;
  static constexpr int kTaps = kTapsOf;
  static constexpr int kPadding = kPaddingOf;
  static constexpr int kPadded = kTaps <= 2 ? 2 : 4;  // a row of weights in shared memory, one vector
  static constexpr bool meets(int residue, int tap) { return (residue + kPadding - tap) % kStride == 0; }
  static constexpr int offset(int residue, int tap) { return (residue + kPadding - tap) / kStride; }
  // The tap of a residue at an offset; -1 where there is none.
  static constexpr int tap(int residue, int at) {
    const int result = residue + kPadding - at * kStride;
    return result >= 0 && result < kTaps ? result : -1;
  }
  static constexpr int low() {
    int result = kTaps + kPadding;  // past every offset
    for (int residue = 0; residue < kStride; ++residue) {
      for (int tap = 0; tap < kTaps; ++tap) {
        if (meets(residue, tap) && offset(residue, tap) < result) result = offset(residue, tap);
      }
    }
    return result;
  }
  static constexpr int high() {
    int result = low();
    for (int residue = 0; residue < kStride; ++residue) {
      for (int tap = 0; tap < kTaps; ++tap) {
        if (meets(residue, tap) && offset(residue, tap) > result) result = offset(residue, tap);
      }
    }
    return result;
  }
  static constexpr int kLow = low();
  static constexpr int kHigh = high();
};
// The taps of `width`, as a value passed to `function`; kAny calls nothing.
template <typename Function>
void with_width_taps(DepthwiseWidth width, Function&& function) {
  switch (width) {
    case DepthwiseWidth::kAny:
      return;
    case DepthwiseWidth::kStride1Kernel3:
      return function(WidthTaps<1, 3, 1>());
    case DepthwiseWidth::kStride2Kernel2:
      return function(WidthTaps<2, 2, 0>());
    case DepthwiseWidth::kStride2Kernel3:
      return function(WidthTaps<2, 3, 1>());
    case DepthwiseWidth::kStride2Kernel3Shifted:
      return function(WidthTaps<2, 3, 0>());
    case DepthwiseWidth::kStride2Kernel4:
      return function(WidthTaps<2, 4, 1>());
  }
}

// Rows: outputs of a thread along the width.
constexpr int depthwise_vector(int element_bytes) { return 16 / element_bytes; }
// Channels: channels of a thread, and its positions u along the width.
constexpr int kDepthwiseChannels = 4;
constexpr int kDepthwisePairRun = 2;
constexpr int depthwise_run(int element_bytes, bool pairs) {
  return pairs ? kDepthwisePairRun : element_bytes == 8 ? 2 : 4;
}

// Accumulators from a row of staged weights to the next, where a row has the channels of `lanes` threads.
constexpr int32_t depthwise_weight_pitch(int32_t lanes, int accumulator_bytes) {
  return lanes * kDepthwiseChannels + 16 / accumulator_bytes;
}
constexpr int kDepthwisePairLanes = 32;  // at most; the rows of weights of paired channels are as long as these need

// Of a block's weights, before runs of rows.
constexpr int32_t depthwise_row_weight_bytes(int32_t in_channels, int32_t taps, int32_t padded) {
  return (in_channels * taps * taps * padded * 4 + 15) / 16 * 16;
}

struct DepthwiseResidue {
  int32_t first_tap;
  int32_t tap_count;  // 0: the output is the bias alone
  int32_t first_offset;
};

struct DepthwiseAxis {
  int32_t stride;
  Divisor by_stride;
  int32_t src_size;
  int32_t dst_size;
  int32_t taps;
  int32_t tap_step;     // from one tap of a residue to the next
  int32_t offset_step;  // from the offset of one tap of a residue to that of the next
  DepthwiseResidue residue[kDepthwiseMaxStride];
};

// What a thread owns. In pairs depth and height have the taps of the width, and it owns both residues of each.
enum class DepthwiseKind : int { kRows, kRowPairs, kChannels, kChannelPairs };

struct DepthwisePlan {
  DepthwiseKind kind;
  DepthwiseWidth width;  // known to the kernel where `kind` has pairs
  std::array<DepthwiseAxis, 3> axis;
  int64_t batch;
  int32_t groups;
  int32_t in_channels;   // per group
  int32_t out_channels;  // per group
  int32_t shift[3];      // what the padding adds to the offsets of `width`; of pairs along depth and height, too
  int32_t walk;          // channels, taps known: units of the width that a thread takes in turn
  int32_t lanes;         // neighbouring threads along the width or the channels, a power of two
  int32_t lane_tiles;    // blocks along them
  int32_t units[3];      // depth, height, width: the parts that one thread computes at a time
  Divisor by_units[3];
  int32_t items;         // units that the other threads number: (depth, height) or (depth, height, width)
  int32_t slots;         // items of a block at a time
  int32_t steps;         // items of a thread, one after the other
  int32_t item_tiles;    // blocks along the items
  int32_t run_elements;  // of row pairs that leave as runs: room for those of one residue of the depth
  int64_t shared_bytes;

  bool channels() const { return kind == DepthwiseKind::kChannels || kind == DepthwiseKind::kChannelPairs; }
  bool pairs() const { return kind == DepthwiseKind::kRowPairs || kind == DepthwiseKind::kChannelPairs; }
  bool pure() const { return in_channels == 1 && out_channels == 1; }
  int64_t blocks() const { return batch * (channels() ? 1 : int64_t{groups} * out_channels) * lane_tiles * item_tiles; }
};

// How the kernel's threads load and store.
struct DepthwiseAccess {
  bool source_vectors;       // rows: a thread's positions along the width are aligned and whole; channels: quads are
  bool destination_vectors;  // likewise a thread's outputs along the width, or the quads

  bool destination_runs = false;  // pairs of rows, each of which follows the one before and is no whole vector

  bool vectors() const { return source_vectors && destination_vectors; }
};

// The plan of a call: what the kernel computes, and how its threads read and write tensors.
struct DepthwiseForwardPlan {
  DepthwisePlan kernel;
  DepthwiseAccess access;
};

// None where the engine cannot.
std::optional<DepthwiseForwardPlan> plan_depthwise_forward(const Problem& problem, DataType dtype,
                                                           const Operands& operands);
// The kernel's part of it; none where no kernel can. `channels_last`: the output's format. `regular`: input and output
// are contiguous along the width or, channels_last, aligned for 16-byte loads and stores of channels; the kernels that
// know the taps need it.
std::optional<DepthwisePlan> plan_depthwise_kernel(const Problem& problem, int element_bytes, bool channels_last,
                                                   bool regular);
std::string to_string(DepthwiseWidth width);
std::string to_string(const DepthwiseForwardPlan& plan);

}  // namespace convt3d
