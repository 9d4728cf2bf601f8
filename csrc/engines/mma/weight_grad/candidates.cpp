// The searches that a weight gradient is worth: of its operands as they are, and of copies.
#include <algorithm>

#include "engines/mma/weight_grad/plan.h"
#include "engines/mma/weight_grad/search.h"

namespace convt3d::mma {
namespace {

bool is_cheaper(const WeightGradPlan& a, const WeightGradPlan& b) { return a.cost_ms < b.cost_ms; }

void set_bias(WeightGradPlan& base, const std::optional<BiasTaps>& bias) {
  if (!bias) return;
  base.bias = BiasSums::kLoadingWarps;
  base.bias_taps = *bias;
}

// The plans that read both operands as words along the width.
std::vector<WeightGradPlan> paired_candidates(const Problem& problem, DataType dtype, const Operands& operands,
                                              const DeviceTraits& device, const std::optional<BiasTaps>& bias) {
  std::optional<PairedGrad> paired = paired_grad(problem, dtype, operands);
  if (!paired) return {};
  set_bias(paired->base, bias);
  return search_weight_grad(paired->words.problem, paired->base, device, kMostCopiedBytes);
}

}  // namespace

std::vector<WeightGradPlan> weight_grad_candidates(const Problem& problem, DataType dtype, int terms,
                                                   const GradLayouts& layouts, const DeviceTraits& device,
                                                   const std::optional<BiasTaps>& bias) {
  if (dtype == DataType::kFloat64) return {};
  WeightGradPlan base = weight_grad_base(problem, dtype, terms, layouts);
  set_bias(base, bias);
  return search_weight_grad(problem, base, device, kMostCopiedBytes);
}

std::vector<WeightGradPlan> weight_grad_candidates(const Problem& problem, DataType dtype, int terms,
                                                   const Operands& operands, const DeviceTraits& device,
                                                   int64_t most_copied, bool sums_bias) {
  const GradLayouts layouts = grad_layouts(problem, dtype, operands);
  const std::optional<BiasTaps> bias = sums_bias ? bias_taps(problem) : std::nullopt;
  if (sums_bias && !bias) return {};
  std::vector<WeightGradPlan> plans = weight_grad_candidates(problem, dtype, terms, layouts, device, bias);
  if (dtype == DataType::kFloat64) return plans;
  const std::vector<WeightGradPlan> paired = paired_candidates(problem, dtype, operands, device, bias);
  plans.insert(plans.end(), paired.begin(), paired.end());
  std::stable_sort(plans.begin(), plans.end(), is_cheaper);
  const bool copies_grad = layouts.grad != LoadWay::kCopy;
  const bool copies_input = layouts.input != LoadWay::kCopy;
  if (!copies_grad && !copies_input) return plans;
  WeightGradPlan base = weight_grad_base(
      problem, dtype, terms, {LoadWay::kCopy, LoadWay::kCopy, false, layouts.grad_begin, layouts.input_begin});
  set_bias(base, bias);
  const int64_t bytes = element_size(dtype);
  if (copies_grad) {
    base.grad_copy = copy_that_may_be(operands.first, operands.mask, problem.batch, problem.output_size(), base.groups,
                                      base.row_channels, bytes);
  }
  if (copies_input) {
    base.input_copy =
        copy_that_may_be(operands.second, {}, problem.batch, problem.input_size, base.groups, base.n_channels, bytes);
  }
  if (copies_grad != base.grad_copy.exists || copies_input != base.input_copy.exists) return plans;
  std::vector<WeightGradPlan> copied = search_weight_grad(problem, base, device, most_copied);
  plans.insert(plans.end(), copied.begin(), copied.end());
  std::stable_sort(plans.begin(), plans.end(), is_cheaper);
  return plans;
}

WeightGradPlan weight_grad_base(const Problem& problem, DataType dtype, int terms, const GradLayouts& layouts) {
  WeightGradPlan base{};
  base.layouts = layouts;
  base.terms = terms;
  base.element_bytes = static_cast<int32_t>(element_size(dtype));
  base.grad_accesses = base.input_accesses = 1;
  base.batch = problem.batch;
  base.groups = problem.groups;
  base.row_channels = static_cast<int32_t>(problem.out_channels_per_group());
  base.n_channels = static_cast<int32_t>(problem.in_channels_per_group());
  for (std::size_t i = 0; i < 3; ++i) base.taps[i].step = static_cast<int32_t>(problem.stride[i]);
  return base;
}

GradLayouts grad_layouts(const Problem& problem, DataType dtype, const Operands& operands, bool channel_rows_of_grad) {
  const int64_t bytes = element_size(dtype);
  const int64_t outputs = problem.output_size(2);
  // In channel rows, positions whose distance is a multiple of four share their banks.
  channel_rows_of_grad = channel_rows_of_grad && problem.stride[2] % 4 != 0;
  return {load_way(operands.first, operands.mask, bytes, problem.out_channels_per_group(), channel_rows_of_grad),
          load_way(operands.second, {}, bytes, problem.in_channels_per_group(), true),
          operands.mask.present,
          rows_begin(operands.first, operands.mask, bytes, outputs),
          rows_begin(operands.second, {}, bytes, problem.input_size[2]),
          copied_part(operands.first, bytes, problem.out_channels_per_group()),
          copied_part(operands.second, bytes, problem.in_channels_per_group())};
}

std::optional<PairedGrad> paired_grad(const Problem& problem, DataType dtype, const Operands& operands) {
  const bool masked = operands.mask.present;
  if (element_size(dtype) != 2 || !has_width_pairs(operands.first, problem.output_size(2)) ||
      !has_width_pairs(operands.second, problem.input_size[2]) ||
      (masked && !has_width_pairs(operands.mask, problem.output_size(2)))) {
    return std::nullopt;
  }
  const std::optional<PairedProblem> words = paired_weight_grad(problem);
  if (!words) return std::nullopt;
  Operands paired = operands;
  paired.first = width_pairs_of(operands.first);
  paired.second = width_pairs_of(operands.second);
  paired.mask = width_pairs_of(operands.mask);
  // Words are planned as float32, whose elements they are.
  const GradLayouts layouts = grad_layouts(words->problem, DataType::kFloat32, paired);
  if (!has_channel_rows(layouts.grad) || !has_channel_rows(layouts.input)) return std::nullopt;
  WeightGradPlan base = weight_grad_base(words->problem, DataType::kFloat32, 1, layouts);
  base.pairs = words->pairs;
  base.pairs_apart = words->apart;
  return PairedGrad{*words, base};
}

std::optional<WeightGradPlan> plan_weight_grad(const Problem& problem, DataType dtype, int terms,
                                               const Operands& operands, bool sums_bias, const DeviceTraits& device) {
  const std::vector<WeightGradPlan> plans =
      weight_grad_candidates(problem, dtype, terms, operands, device, kMostCopiedBytes, sums_bias);
  if (plans.empty()) return std::nullopt;
  return plans.front();
}

}  // namespace convt3d::mma
