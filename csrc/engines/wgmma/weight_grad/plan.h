// Problem -> how the weight gradient is laid out on Hopper's matrix units, as data. Knows nothing of torch or CUDA.
//
// C[ci][tap, co] = sum over input positions i of the input at i, times grad_output at i*stride - padding + k*dilation:
// K is positions. Both operands come as boxes of positions whose channels are neighbours, rows along K.
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
#include "device/small_quotient.h"
#include "device/swizzle.h"
#include "engines/wgmma/weight_grad/taps.h"

namespace convt3d {

constexpr int kWgmmaGradThreads = 384;  // two warpgroups that multiply, one that brings operands
constexpr int kWgmmaGradRowBytes = 128;
constexpr int kWgmmaGradPanelChannels = 64;  // of a row of 16-bit elements
constexpr int kWgmmaGradStep = 16;           // 16-bit positions of a step of K, two groups of eight rows
constexpr int kWgmmaGradMostSteps = 32;      // of a box
constexpr int kWgmmaGradMostStages = 6;
constexpr int kWgmmaGradMostPanels = 4;       // of grad_output, of 16 bits
constexpr int kWgmmaGradMostBiasPanels = 2;   // where the bias's gradient is wanted: one for each warpgroup
constexpr int kWgmmaGradBarrierBytes = 1024;  // barriers and the table of steps

constexpr int kWgmmaTurnedPanelChannels = 32;  // of a row of 32-bit elements
constexpr int kWgmmaTurnedStep = 8;            // 32-bit positions of a step of K
constexpr int kWgmmaTurnedBlock = 32;          // most positions of a block that is turned: a row of them has 128 bytes
constexpr int kWgmmaTurnedRows = 64;           // of an instruction: output channels
constexpr int kWgmmaTurners = 3;               // warps
constexpr int kWgmmaTurnedBlockBytes = kWgmmaTurnedBlock * kWgmmaGradRowBytes;

// Steps of K of a block with so many positions; the kernel takes two and two.
CONVT3D_HOST_DEVICE constexpr int32_t turned_steps(int32_t positions) {
  constexpr int32_t kTwoSteps = 2 * kWgmmaTurnedStep;
  return 2 * ((positions + kTwoSteps - 1) / kTwoSteps);
}

// How the products read their operands.
enum class WgmmaGradForm : int32_t {
  // 16 bits, as rows lie in shared memory: M is input channels, N is taps and output channels.
  kRows,
  // 32 bits, whose products take an operand in shared memory with K contiguous alone. The input is turned there, and
  // grad_output, which each tap shifts, comes through registers: M is output channels, N is input channels.
  kTurned,
};

// The instructions that there are kernels for.
struct WgmmaGradInstruction {
  int32_t panels;  // of columns: a tap or channels of grad_output; turned, of 32 input channels
  int32_t sets;    // of accumulators
  int32_t widths;  // turned: neighbouring taps along the width, whose sets share words of grad_output's rows

  constexpr bool operator==(const WgmmaGradInstruction& other) const {
    return panels == other.panels && sets == other.sets && widths == other.widths;
  }
};
inline constexpr WgmmaGradInstruction kWgmmaGradInstructions[] = {{4, 1, 1}, {3, 1, 1}, {2, 2, 1}, {2, 1, 1},
                                                                  {1, 4, 1}, {1, 2, 1}, {1, 1, 1}};
inline constexpr WgmmaGradInstruction kWgmmaTurnedInstructions[] = {
    {8, 1, 1}, {5, 1, 1}, {4, 2, 2}, {4, 2, 1}, {4, 1, 1}, {3, 2, 2}, {3, 2, 1}, {3, 1, 1}, {2, 3, 3},
    {2, 2, 2}, {2, 2, 1}, {2, 1, 1}, {1, 4, 4}, {1, 4, 2}, {1, 3, 3}, {1, 4, 1}, {1, 2, 2}, {1, 2, 1}};
// Whether registers have room for its accumulators and for two steps of rows. Of two terms there are as many
// accumulators again, for the products of a box, and as many rows.
constexpr bool turned_fits(const WgmmaGradInstruction& instruction, int32_t terms) {
  const int32_t columns = instruction.panels * kWgmmaTurnedPanelChannels * instruction.sets;
  return terms == 1 || (columns <= 128 && instruction.sets <= 2);
}

// A tile of the input, or of grad_output with its halo: panels of rows of 128 bytes, a row a position.
struct WgmmaGradTile {
  int32_t panels;
  int32_t extent[3];    // positions along each axis
  int32_t panel_bytes;  // whole patterns of the swizzle
};

struct WgmmaWeightGradPlan {
  WgmmaGradForm form;
  int32_t terms;  // 2: float32 proper, by two numbers of TF32
  int64_t batch;
  int32_t groups;
  int32_t in_channels;   // of a group
  int32_t out_channels;  // of a group
  WgmmaGradTaps taps[3];
  int32_t images;         // of a box; their rows count fastest
  int32_t box[3];         // input positions of a box
  int32_t block[3];       // turned: positions of a block, which is copied by itself and has all images of a box
  int32_t pairs_of_rows;  // turned: 1 where K takes every second row of eight first, which then lie in different banks
  int64_t boxes[4];       // how many boxes there are along images, depth, height, width
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

  CONVT3D_HOST_DEVICE bool turned() const { return form == WgmmaGradForm::kTurned; }
  CONVT3D_HOST_DEVICE int32_t element_bytes() const { return turned() ? 4 : 2; }
  CONVT3D_HOST_DEVICE int32_t panel_channels() const { return kWgmmaGradRowBytes / element_bytes(); }
  CONVT3D_HOST_DEVICE int32_t step_positions() const { return turned() ? kWgmmaTurnedStep : kWgmmaGradStep; }
  // The channels of M and of N, and how many a block has of each.
  CONVT3D_HOST_DEVICE int32_t m_channels() const { return turned() ? out_channels : in_channels; }
  CONVT3D_HOST_DEVICE int32_t n_channels() const { return turned() ? in_channels : out_channels; }
  CONVT3D_HOST_DEVICE int32_t chunk_rows() const { return (turned() ? grad : input).panels * panel_channels(); }
  CONVT3D_HOST_DEVICE int32_t chunk_columns() const { return (turned() ? input : grad).panels * panel_channels(); }
  CONVT3D_HOST_DEVICE int32_t columns() const { return instruction.panels * panel_channels(); }  // of an instruction

  // Neighbouring taps along the width are panels of one instruction, else neighbouring channels.
  CONVT3D_HOST_DEVICE bool taps_in_n() const { return !turned() && taps[2].most > 1; }
  // What an instruction's operand is for, beside its panels: (tap along depth, tap along height, panel of channels) or,
  // turned, (tap along depth, tap along height, tap along the width, or all of them). How many there are in a part with
  // so many taps:
  CONVT3D_HOST_DEVICE int32_t outer_panels() const { return taps_in_n() ? grad.panels : 1; }
  CONVT3D_HOST_DEVICE int32_t columns_of_sets(int32_t depths, int32_t heights, int32_t widths) const {
    if (turned()) return depths * heights * (instruction.widths > 1 ? 1 : widths);
    return depths * heights * outer_panels();
  }
  // Warpgroups differ in their rows of M, or in their columns.
  CONVT3D_HOST_DEVICE bool shares_columns() const {
    return turned() ? grad.panels * kWgmmaTurnedPanelChannels == kWgmmaTurnedRows : input.panels == 1;
  }
  CONVT3D_HOST_DEVICE int32_t panel_shift() const {  // bytes from a panel of an instruction to the next
    return taps_in_n() ? taps[2].shift * images * kWgmmaGradRowBytes : grad.panel_bytes;
  }
  // Turned: of one term, [block][panel] of 32 rows of 128 bytes.
  CONVT3D_HOST_DEVICE int32_t block_positions() const { return images * block[0] * block[1] * block[2]; }
  CONVT3D_HOST_DEVICE int32_t block_steps() const { return turned_steps(block_positions()); }
  CONVT3D_HOST_DEVICE int32_t blocks_of_box() const {
    return small_quotient(box[0], block[0]) * small_quotient(box[1], block[1]) * small_quotient(box[2], block[2]);
  }
  CONVT3D_HOST_DEVICE int32_t block_bytes() const { return input.panels * kWgmmaTurnedBlockBytes; }
  CONVT3D_HOST_DEVICE int32_t turned_bytes() const { return blocks_of_box() * block_bytes(); }
  CONVT3D_HOST_DEVICE int32_t input_bytes() const {
    return turned() ? terms * turned_bytes() : input.panels * input.panel_bytes;
  }
  CONVT3D_HOST_DEVICE int32_t stage_bytes() const { return input_bytes() + grad.panels * grad.panel_bytes; }
  // Of the tile of grad_output, for a tap of a part and a panel.
  CONVT3D_HOST_DEVICE int32_t shift_of(int32_t depth, int32_t height, int32_t panel) const {
    const int32_t lines = depth * taps[0].shift * grad.extent[1] + height * taps[1].shift;
    return lines * grad.extent[2] * images * kWgmmaGradRowBytes + panel * grad.panel_bytes;
  }
  // The row of the tile of grad_output that the first tap of all meets, at an input position of the box.
  CONVT3D_HOST_DEVICE int32_t row_at(int32_t image, int32_t depth, int32_t height, int32_t width) const {
    const int32_t line = depth * taps[0].rows * grad.extent[1] + height * taps[1].rows;
    return (line * grad.extent[2] + width * taps[2].rows) * images + image;
  }
  // That row at a row of the input's.
  CONVT3D_HOST_DEVICE int32_t grad_row(int32_t row) const {
    int32_t at = row;
    const int32_t image = take_small(at, images);
    const int32_t w = take_small(at, box[2]);
    const int32_t h = take_small(at, box[1]);
    return row_at(image, at, h, w);
  }
  // That row at a position of a block that is turned.
  CONVT3D_HOST_DEVICE int32_t turned_row(int32_t of_box, int32_t position) const {
    int32_t at[3];
    int32_t rest = position;
    const int32_t image = take_small(rest, images);
    for (int i = 2; i >= 0; --i) {
      const int32_t of_box_at = take_small(of_box, small_quotient(box[i], block[i])) * block[i];
      at[i] = of_box_at + take_small(rest, block[i]);
    }
    return row_at(image, at[0], at[1], at[2]);
  }
  // The row of eight that is K's column `k` of a step.
  CONVT3D_HOST_DEVICE int32_t row_of_k(int32_t k) const { return pairs_of_rows != 0 ? k % 4 * 2 + k / 4 : k; }
  CONVT3D_HOST_DEVICE int32_t k_of_row(int32_t row) const { return pairs_of_rows != 0 ? row / 2 + row % 2 * 4 : row; }

  CONVT3D_HOST_DEVICE int64_t parts() const { return int64_t{taps[0].parts} * taps[1].parts * taps[2].parts; }
  int64_t tiles() const { return int64_t{groups} * m_chunks * n_chunks * parts(); }
  int64_t blocks() const { return tiles() * splits; }
  CONVT3D_HOST_DEVICE int64_t box_count() const { return boxes[0] * boxes[1] * boxes[2] * boxes[3]; }
  int64_t shared_bytes() const { return kWgmmaGradBarrierBytes + int64_t{stages} * stage_bytes(); }
  // Partial gradients: [split][group][tap][channel of M][channel of N], float32; two channels of N at once.
  CONVT3D_HOST_DEVICE int32_t n_pitch() const { return (n_channels() + 1) / 2 * 2; }
  CONVT3D_HOST_DEVICE int64_t gradient_elements() const {
    return int64_t{groups} * taps[0].taps * taps[1].taps * taps[2].taps * m_channels() * n_pitch();
  }
  // Partial gradients of the bias: [split][part of the taps][warpgroup with taps of its own][output channel], float32.
  CONVT3D_HOST_DEVICE bool has_bias() const { return bias[0] != 0; }
  CONVT3D_HOST_DEVICE int32_t bias_shares() const { return turned() && shares_columns() ? 2 : 1; }
  int64_t bias_partials() const { return splits * parts() * bias_shares(); }
  int64_t bias_offset() const { return workspace_part(4 * splits * gradient_elements()); }
  int64_t workspace_bytes() const {
    const int64_t bias_bytes = 4 * bias_partials() * groups * out_channels;
    return has_bias() ? bias_offset() + bias_bytes : 4 * splits * gradient_elements();
  }
  OrderedSumShape sum_shape() const { return gradient_sum_shape(splits, gradient_elements()); }
};

// All plans that are worth a look, the cheapest first; none where the problem is not for this engine. `terms`: 2
// where float32 proper is wanted. `sums_bias`: the bias's gradient is wanted, too; none where rows do
// not have it.
std::vector<WgmmaWeightGradPlan> wgmma_weight_grad_candidates(const Problem& problem, DataType dtype, int32_t terms,
                                                              const Operands& operands, const DeviceTraits& device,
                                                              bool sums_bias = false);
std::optional<WgmmaWeightGradPlan> plan_wgmma_weight_grad(const Problem& problem, DataType dtype, int32_t terms,
                                                          const Operands& operands, const DeviceTraits& device,
                                                          bool sums_bias = false);
std::string to_string(const WgmmaWeightGradPlan& plan);

}  // namespace convt3d
