// Problem -> how the weight gradient is laid out on Hopper's matrix units, as data. Knows nothing of torch or CUDA.
//
// C[ci][tap, co] = sum over input positions i of the input at i, times grad_output at i*stride - padding + k*dilation:
// M is input channels, N is (tap, output channel), K is positions. Both operands come as boxes of positions whose
// channels are neighbours: rows along K that are M- and N-major. 16-bit elements alone have such operands.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/bias_taps.h"
#include "core/device_traits.h"
#include "core/host_device.h"
#include "core/integer.h"
#include "core/operands.h"
#include "core/ordered_sum_shape.h"
#include "core/problem.h"
#include "engines/wgmma/weight_grad/taps.h"

namespace convt3d {

constexpr int kWgmmaGradThreads = 384;       // two warpgroups that multiply, one that has boxes copied
constexpr int kWgmmaGradPanelChannels = 64;  // of a row of 128 bytes: rows of M, columns of N
constexpr int kWgmmaGradRowBytes = 128;
constexpr int kWgmmaGradStep = 16;       // positions of a step of K, two groups of eight rows
constexpr int kWgmmaGradMostSteps = 32;  // of a box
constexpr int kWgmmaGradMostStages = 6;
constexpr int kWgmmaGradMostPanels = 4;       // of grad_output
constexpr int kWgmmaGradMostBiasPanels = 2;   // where the bias's gradient is wanted: one for each warpgroup
constexpr int kWgmmaGradBarrierBytes = 1024;  // barriers and the table of steps

// The instructions that there are kernels for.
struct WgmmaGradInstruction {
  int32_t panels;  // of 64 columns, each a tap or other channels of grad_output
  int32_t sets;    // of accumulators

  constexpr bool operator==(const WgmmaGradInstruction& other) const {
    return panels == other.panels && sets == other.sets;
  }
  constexpr int32_t columns() const { return panels * kWgmmaGradPanelChannels; }
};
inline constexpr WgmmaGradInstruction kWgmmaGradInstructions[] = {{4, 1}, {3, 1}, {2, 2}, {2, 1},
                                                                  {1, 4}, {1, 2}, {1, 1}};

// A tile of the input, or of grad_output with its halo: panels of rows of 64 channels, a row a position.
struct WgmmaGradTile {
  int32_t panels;
  int32_t extent[3];    // positions along each axis
  int32_t panel_bytes;  // whole patterns of the swizzle
};

struct WgmmaWeightGradPlan {
  int64_t batch;
  int32_t groups;
  int32_t in_channels;   // of a group
  int32_t out_channels;  // of a group
  WgmmaGradTaps taps[3];
  int32_t images;    // of a box; their rows count fastest
  int32_t box[3];    // input positions of a box
  int64_t boxes[4];  // how many boxes there are along images, depth, height, width
  WgmmaGradTile input;
  WgmmaGradTile grad;
  WgmmaGradInstruction instruction;
  int32_t m_chunks;
  int32_t n_chunks;
  int32_t steps;   // of K in a box
  int32_t stages;  // boxes in shared memory
  int64_t splits;  // blocks that share one tile's boxes
  int64_t split_boxes;
  int32_t segment_boxes;  // boxes that are summed in registers before they join the sum in memory
  BiasTaps bias;          // whose rows of grad_output are summed, too; of a plan without the bias's gradient none
  bool beside;            // the kernel begins beside the one before it, and ends after that
  double cost_ms;         // expected time

  // Neighbouring taps along the width are panels of one instruction, else neighbouring channels.
  CONVT3D_HOST_DEVICE bool taps_in_n() const { return taps[2].most > 1; }
  // What an instruction's operand is for, beside its panels: (tap along depth, tap along height, panel of channels).
  // How many there are in a part with so many taps along depth and height:
  CONVT3D_HOST_DEVICE int32_t outer_panels() const { return taps_in_n() ? grad.panels : 1; }
  CONVT3D_HOST_DEVICE int32_t columns_of_sets(int32_t depths, int32_t heights) const {
    return depths * heights * outer_panels();
  }
  // Warpgroups differ in their input channels, or in their columns.
  CONVT3D_HOST_DEVICE bool shares_columns() const { return input.panels == 1; }
  CONVT3D_HOST_DEVICE int32_t panel_shift() const {  // bytes from a panel of an instruction to the next
    return taps_in_n() ? taps[2].shift * images * kWgmmaGradRowBytes : grad.panel_bytes;
  }
  CONVT3D_HOST_DEVICE int32_t stage_bytes() const {
    return input.panels * input.panel_bytes + grad.panels * grad.panel_bytes;
  }
  // Of the tile of grad_output, for a tap of a part and a panel.
  CONVT3D_HOST_DEVICE int32_t shift_of(int32_t depth, int32_t height, int32_t panel) const {
    const int32_t lines = depth * taps[0].shift * grad.extent[1] + height * taps[1].shift;
    return lines * grad.extent[2] * images * kWgmmaGradRowBytes + panel * grad.panel_bytes;
  }
  // The row of the tile of grad_output that the first tap of all meets at a row of the input's.
  CONVT3D_HOST_DEVICE int32_t grad_row(int32_t row) const {
    int32_t at = row / images;
    const int32_t w = at % box[2];
    at /= box[2];
    const int32_t h = at % box[1];
    return (((at / box[1]) * grad.extent[1] + h) * grad.extent[2] + w) * images + row % images;
  }

  int64_t parts() const { return int64_t{taps[0].parts} * taps[1].parts * taps[2].parts; }
  int64_t tiles() const { return int64_t{groups} * m_chunks * n_chunks * parts(); }
  int64_t blocks() const { return tiles() * splits; }
  CONVT3D_HOST_DEVICE int64_t box_count() const { return boxes[0] * boxes[1] * boxes[2] * boxes[3]; }
  int64_t shared_bytes() const { return kWgmmaGradBarrierBytes + int64_t{stages} * stage_bytes(); }
  // Partial gradients: [split][group][tap][input channel][output channel], float32; two output channels at once.
  CONVT3D_HOST_DEVICE int32_t n_pitch() const { return (out_channels + 1) / 2 * 2; }
  CONVT3D_HOST_DEVICE int64_t gradient_elements() const {
    return int64_t{groups} * taps[0].taps * taps[1].taps * taps[2].taps * in_channels * n_pitch();
  }
  // Partial gradients of the bias: [split][part of the taps][output channel], float32.
  CONVT3D_HOST_DEVICE bool has_bias() const { return bias[0] != 0; }
  int64_t bias_partials() const { return splits * parts(); }
  int64_t bias_offset() const { return workspace_part(4 * splits * gradient_elements()); }
  int64_t workspace_bytes() const {
    const int64_t bias_bytes = 4 * bias_partials() * groups * out_channels;
    return has_bias() ? bias_offset() + bias_bytes : 4 * splits * gradient_elements();
  }
  OrderedSumShape sum_shape() const { return gradient_sum_shape(splits, gradient_elements()); }
};

// All plans that are worth a look, the cheapest first; none where the problem is not for this engine. `sums_bias`: the
// bias's gradient is wanted, too; none where rows do not have it.
std::vector<WgmmaWeightGradPlan> wgmma_weight_grad_candidates(const Problem& problem, DataType dtype,
                                                              const Operands& operands, const DeviceTraits& device,
                                                              bool sums_bias = false);
std::optional<WgmmaWeightGradPlan> plan_wgmma_weight_grad(const Problem& problem, DataType dtype,
                                                          const Operands& operands, const DeviceTraits& device,
                                                          bool sums_bias = false);
std::string to_string(const WgmmaWeightGradPlan& plan);

}  // namespace convt3d
