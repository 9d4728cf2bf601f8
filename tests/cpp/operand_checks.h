// What a call's operands make of a plan of the wgmma engine: how it loads and stores, and nothing else. Planned as a
// call is; broken strides and addresses are those of tensors that exist.
#pragma once

#include <tuple>
#include <utility>

#include "core/devices.h"
#include "engines/wgmma/plan/plan.h"
#include "terms.h"

namespace convt3d {

// Every tap of a loop has numbers of its own, those of the width counting fastest.
inline void check_order_of_k(const Problem& problem, const WgmmaPlan& plan) {
  for (int loop = 0; loop < plan.loops.count(); ++loop) {
    const WgmmaPhase phase = plan.arrangement.phase(loop / plan.loops.sets, loop % plan.loops.sets);
    const auto& axis = plan.arrangement.axis;
    const int32_t counts[3] = {axis[0].taps[phase.depth].count, axis[1].taps[phase.height].count,
                               axis[2].taps[phase.width].count};
    const int32_t taps = plan.loops.steps[loop] / plan.loops.tap_steps;
    expect(taps == counts[0] * counts[1] * counts[2], "a loop has the taps of its phase", problem);
    for (int32_t tap = 0; tap < taps; ++tap) {
      const WgmmaTapNumbers at = tap_numbers(tap, counts[2], counts[1]);
      expect(at.depth < counts[0] && at.height < counts[1] && at.width < counts[2] &&
                 (at.depth * counts[1] + at.height) * counts[2] + at.width == tap,
             "taps are numbered with the width counting fastest", problem);
    }
  }
}

// The numbers of a plan that decide in which order products are added.
inline auto order_of(const WgmmaPlan& plan) {
  return std::tuple(plan.product.joined, static_cast<int>(plan.arrangement.form), plan.tile.instruction.n,
                    plan.tile.size[0], plan.tile.size[1], plan.tile.size[2], plan.tile.splits,
                    plan.panels.position_bytes, plan.panels.in_chunk, plan.loops.stages());
}

// Returns the load and the store of the operands that `change` leaves, on which nothing else of the plan depends.
template <typename Change>
std::pair<WgmmaLoadWay, WgmmaStoreWay> ways_of(const Problem& problem, WgmmaElement element, bool channels_last,
                                               Change&& change) {
  Operands operands = dense_operands(problem, channels_last);
  const auto usual = plan_wgmma(wgmma_forward(problem), element, operands, fitted_device(), false);
  change(operands);
  const auto plan = plan_wgmma(wgmma_forward(problem), element, operands, fitted_device(), false);
  expect(usual && plan && order_of(*usual) == order_of(*plan), "operands do not change the order of products", problem);
  if (!plan) return {};
  check_order_of_k(problem, *plan);
  return {plan->load.way(), plan->store.way()};
}

inline void check_operands() {
  Problem problem;
  problem.batch = 2;
  problem.in_channels = problem.out_channels = 64;
  problem.input_size = {4, 6, 32};
  problem.kernel_size = {3, 3, 3};
  problem.padding = {1, 1, 1};
  const auto ways = [&](WgmmaElement element, bool channels_last, auto&& change) {
    return ways_of(problem, element, channels_last, change);
  };
  const auto none = [](Operands&) {};
  const auto misaligned_input = [](Operands& operands) { operands.first.address = 4; };
  const auto misaligned_output = [](Operands& operands) { operands.result.address = 4; };
  const auto other_format = [&](Operands& operands) {
    operands.first = dense_operands(problem, operands.first.stride[1] != 1).first;
  };
  using Ways = std::pair<WgmmaLoadWay, WgmmaStoreWay>;
  for (const WgmmaElement element : {WgmmaElement{2, 1}, WgmmaElement{4, 1}, WgmmaElement{4, 2}}) {
    const auto is = [&](bool channels_last, auto&& change, Ways expected, const char* what) {
      expect(ways(element, channels_last, change) == expected, what, problem);
    };
    is(true, none, {WgmmaLoadWay::kChannelBoxes, WgmmaStoreWay::kBoxes}, "contiguous channels are boxes");
    is(true, misaligned_input, {WgmmaLoadWay::kElements, WgmmaStoreWay::kBoxes}, "TMA reads aligned channels only");
    is(true, misaligned_output, {WgmmaLoadWay::kChannelBoxes, WgmmaStoreWay::kBoxesByThreads},
       "TMA writes aligned channels only");
    is(true, other_format, {WgmmaLoadWay::kElements, WgmmaStoreWay::kBoxes}, "a contiguous width was not planned for");
    is(false, none, {WgmmaLoadWay::kLineBoxes, WgmmaStoreWay::kBoxes}, "a contiguous width comes as boxes of lines");
    is(false, misaligned_input, {WgmmaLoadWay::kElements, WgmmaStoreWay::kBoxes}, "TMA reads aligned lines only");
    is(false, misaligned_output, {WgmmaLoadWay::kLineBoxes, WgmmaStoreWay::kBoxesByThreads},
       "TMA writes aligned lines only");
    is(false, other_format, {WgmmaLoadWay::kChannelBoxes, WgmmaStoreWay::kBoxes}, "contiguous channels need no plan");
    // Channels of part of a tensor, of which not all pieces of 16 bytes are whole.
    is(
        true,
        [&](Operands& operands) {
          for (const int i : {0, 2, 3, 4}) operands.first.stride[i] = operands.first.stride[i] / 64 * 66;
        },
        {WgmmaLoadWay::kElements, WgmmaStoreWay::kBoxes}, "TMA steps over multiples of 16 bytes only");
  }
}

// An input that TMA cannot read is copied with its channels last, of whatever strides, where threads would take longer.
inline void check_input_copies() {
  Problem problem;
  problem.batch = 2;
  problem.in_channels = problem.out_channels = 64;
  problem.input_size = {6, 7, 5};
  problem.kernel_size = {3, 3, 3};
  problem.padding = {1, 1, 1};
  for (const WgmmaElement element : {WgmmaElement{2, 1}, WgmmaElement{4, 1}, WgmmaElement{4, 2}}) {
    Operands operands = dense_operands(problem, false);
    const auto planned = [&](bool copies = true) {
      return *plan_wgmma(wgmma_forward(problem), element, operands, fitted_device(), copies);
    };
    const WgmmaPlan dense = planned();
    expect(dense.copy.exists && dense.load.way() == WgmmaLoadWay::kChannelBoxes, "an odd width is copied", problem);
    expect(dense.workspace_bytes() == dense.copy_offset() + dense.copy.bytes() && dense.copy_offset() % 256 == 0 &&
               dense.copy_offset() >= dense.kernel_bytes() &&
               dense.copy.bytes() == 2 * 64 * 6 * 7 * 5 * int64_t{element.bytes},
           "a copy has room behind the packed weight", problem);
    const WgmmaPlan other = planned(false);
    expect(!other.copy.exists && other.cost > dense.cost, "what may not be copied takes longer", problem);
    const auto agrees = [&](bool copied, const char* what) {
      const WgmmaPlan plan = planned();
      expect(plan.copy.exists == copied && plan.load.way() == WgmmaLoadWay::kChannelBoxes &&
                 order_of(plan) == order_of(dense),
             what, problem);
    };
    operands.first.stride[0] *= 2;
    agrees(true, "a slice of channels is copied");
    operands.first.stride = {0, 1, 0, 0, 0};
    operands.first.address = 4;
    expect(order_of(planned()) == order_of(dense), "what is expanded is read in the same order", problem);
    operands.first = dense_operands(problem, true).first;
    agrees(false, "channels that are last already are read as they are");
  }
  problem.in_channels = 63;
  expect(!plan_wgmma(wgmma_forward(problem), {4, 1}, dense_operands(problem, false), fitted_device())->copy.exists,
         "pieces of channels are whole", problem);
  problem.in_channels = 64;
  problem.input_size = {101, 101, 101};
  expect(!plan_wgmma(wgmma_forward(problem), {4, 1}, dense_operands(problem, false), fitted_device())->copy.exists,
         "a copy has 256 MiB at most", problem);
}

constexpr bool instructions_fit() {
  for (const WgmmaInstruction& at : kWgmmaInstructions) {
    if (at.n / 2 * (at.sets + at.terms - 1) > 128) return false;
  }
  return true;
}
static_assert(instructions_fit(), "a thread has at most 128 sums and products");

}  // namespace convt3d
