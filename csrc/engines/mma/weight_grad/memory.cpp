#include "engines/mma/weight_grad/memory.h"

#include <algorithm>
#include <climits>

#include "core/integer.h"

namespace convt3d::mma {
namespace {

GradLayout grad_layout(const WeightGradPlan& plan, int64_t before) {
  int64_t end = before;
  const auto take = [&](int64_t bytes) {
    const int64_t begin = end;
    end = round_up(end + bytes, kPieceBytes);
    return static_cast<int32_t>(std::min<int64_t>(begin, INT32_MAX));
  };
  GradLayout layout{};
  layout.barriers = take(kGradBarrierBytes);
  layout.shares = take(kGradShareBytes);
  // Warps read the entries of their first step before they see that there is none.
  layout.positions = take(int64_t{8} * kGradStep * std::max(plan.steps, plan.warps_k));
  layout.eights = take(int64_t{kGradEightBytes} * plan.most_eights());
  const int64_t bias_eights =
      plan.bias == BiasSums::kLoadingWarps ? int64_t{plan.warps_groups} * plan.most_eights() : 0;
  const int64_t bias_fragments =
      plan.bias == BiasSums::kLoadingWarps ? int64_t{plan.warps_groups} * plan.most_fragments() : 0;
  layout.bias = take(4 * 8 * bias_eights);
  layout.bias_units =
      take(bias_fragments > 0 ? 4 * kBiasUnitSums * most_bias_units(static_cast<int32_t>(bias_fragments)) : 0);
  layout.bias_fragments = take(bias_fragments > 0 ? kBiasFragmentBytes * (1 + bias_fragments) : 0);
  layout.grad_fixed = take(plan.grad_shape.fixed_bytes());
  layout.input_fixed = take(plan.input_shape.fixed_bytes());
  layout.tables = take(0);
  layout.input_table = static_cast<int32_t>(round_up(plan.grad_shape.table_bytes(plan.layouts.masked), kPieceBytes));
  layout.table_bytes =
      layout.input_table + static_cast<int32_t>(round_up(plan.input_shape.table_bytes(false), kPieceBytes));
  take(int64_t{plan.tables()} * layout.table_bytes);
  layout.raw = take(0);
  const int64_t grad_raw = plan.grad_shape.raw_bytes(plan.layouts.masked);
  const int64_t raw = grad_raw + plan.input_shape.raw_bytes(false);
  take(plan.ahead * raw);
  layout.input_raw = static_cast<int32_t>(std::min<int64_t>(grad_raw, INT32_MAX));
  layout.raw_bytes = static_cast<int32_t>(std::min<int64_t>(raw, INT32_MAX));
  layout.stages = take(0);
  layout.input = plan.grad.bytes();
  layout.stage_bytes = layout.input + plan.input.bytes() + (plan.input.has_channel_rows() ? 0 : plan.input.pitch);
  layout.bytes = end + int64_t{plan.stages} * layout.stage_bytes;
  return layout;
}

}  // namespace

bool set_memory(WeightGradPlan& plan, int64_t most_bytes, int64_t before) {
  // Boxes and tiles are numbers of 31 bits, also those of a split that would begin past the last box.
  if (2 * plan.box_count() > INT32_MAX || plan.tiles() > INT32_MAX) return false;
  const bool waits = copies(plan.layouts.grad) || copies(plan.layouts.input);
  for (int32_t count = kMostGradStages; count >= 2; --count) {
    plan.stages = plan.only_rows() ? 2 : count;
    plan.ahead = plan.only_copies() ? count : waits ? count - 1 : 1;
    plan.layout = grad_layout(plan, before);
    if (plan.layout.bytes <= most_bytes) return true;
  }
  return false;
}

}  // namespace convt3d::mma
