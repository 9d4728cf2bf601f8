#include "engines/mma/correlation/plan.h"

#include <algorithm>
#include <sstream>

#include "core/integer.h"
#include "engines/mma/correlation/cost.h"
#include "engines/mma/correlation/search.h"

namespace convt3d::mma {
namespace {

constexpr int32_t kMostJoined = 16;          // groups
constexpr int32_t kMostJoinedChannels = 64;  // of all of them

// However the source may be read.
void search_ways(CorrelationPlan plan, const CorrelationQuery& query, std::vector<CorrelationPlan>& plans) {
  const Tensors& tensors = query.tensors;
  const auto way = [&](bool channel_rows) {
    return load_way(tensors.source, tensors.mask, plan.source_bytes, plan.k_channels, channel_rows);
  };
  plan.way = way(true);
  search_correlation(plan, query, plans);
  if (plan.way == LoadWay::kCopy) return;
  // It may be cheaper to transpose once than to read word by word for each tap.
  if (has_channel_rows(plan.way)) {
    plan.way = way(false);
    search_correlation(plan, query, plans);
  }
  // It may be cheaper still to do so once for all blocks.
  plan.copy = copy_that_may_be(tensors.source, tensors.mask, plan.batch,
                               {plan.axis[0].src_size, plan.axis[1].src_size, plan.axis[2].src_size}, plan.groups,
                               plan.k_channels, plan.source_bytes);
  if (!plan.copy.exists) return;
  plan.way = LoadWay::kCopy;
  plan.masked = false;
  search_correlation(plan, query, plans);
}

// The source is read as words along the width, where it can be.
void search_paired_source(CorrelationPlan plan, const CorrelationQuery& query, std::vector<CorrelationPlan>& plans) {
  const Tensors& tensors = query.tensors;
  const auto is_paired = [&](const OperandTraits& of) { return has_width_pairs(of, plan.axis[2].src_size); };
  if (query.element_bytes != 2 || !is_paired(tensors.source) || (tensors.mask.present && !is_paired(tensors.mask))) {
    return;
  }
  const std::optional<PairedAxis> words = paired_axis(plan.axis[2]);
  if (!words) return;
  plan.axis[2] = words->map;
  plan.pairs = words->pairs;
  plan.source_bytes = 2 * query.element_bytes;
  const Tensors of_words = {width_pairs_of(tensors.source), width_pairs_of(tensors.mask), tensors.destination};
  plan.way = load_way(of_words.source, of_words.mask, plan.source_bytes, plan.k_channels, true);
  if (!has_channel_rows(plan.way) || !make_residues(plan.axis[2], plan.residues[2])) return;
  search_correlation(plan, {of_words, query.element_bytes, query.device, query.most_copied, query.keep_all}, plans);
}

// The destination is written as words along the width, where it can be.
void search_paired_result(CorrelationPlan plan, const CorrelationQuery& query, std::vector<CorrelationPlan>& plans) {
  if (query.element_bytes != 2 || plan.joined > 1 ||
      !has_width_pairs(query.tensors.destination, plan.axis[2].dst_size)) {
    return;
  }
  const std::optional<PairedAxis> words = paired_result(plan.axis[2]);
  if (!words) return;
  plan.axis[2] = words->map;
  plan.store = StoreWay::kPairs;
  plan.pairs = words->pairs;
  plan.n_channels *= 2;
  if (make_residues(plan.axis[2], plan.residues[2])) search_ways(plan, query, plans);
}

std::vector<CorrelationPlan> search(const Problem& problem, Correlation correlation, DataType dtype, int terms,
                                    const Tensors& tensors, const DeviceTraits& device, int64_t most_copied,
                                    bool keep_all) {
  if (dtype == DataType::kFloat64) return {};
  CorrelationPlan plan{};
  for (int i = 0; i < 3; ++i) {
    const auto a = static_cast<size_t>(i);
    plan.axis[a] = correlation == Correlation::kForward ? forward_axis(problem, i) : input_grad_axis(problem, i);
    if (!make_residues(plan.axis[a], plan.residues[a])) return {};
  }
  const auto inputs = static_cast<int32_t>(problem.in_channels_per_group());
  const auto outputs = static_cast<int32_t>(problem.out_channels_per_group());
  const auto bytes = static_cast<int32_t>(element_size(dtype));
  plan.terms = terms;
  plan.masked = tensors.mask.present;
  plan.batch = problem.batch;
  plan.source_bytes = bytes;
  const CorrelationQuery query{tensors, bytes, device, most_copied, keep_all};
  std::vector<CorrelationPlan> plans;
  for (int32_t joined = 1; joined <= kMostJoined; joined *= 2) {
    if (problem.groups % joined != 0 || (joined > 1 && joined * std::max(inputs, outputs) > kMostJoinedChannels)) break;
    plan.joined = joined;
    plan.groups = problem.groups / joined;
    plan.k_channels = joined * (correlation == Correlation::kForward ? inputs : outputs);
    plan.n_channels = joined * (correlation == Correlation::kForward ? outputs : inputs);
    search_paired_source(plan, query, plans);
    search_paired_result(plan, query, plans);
    search_ways(plan, query, plans);
  }
  if (correlation == Correlation::kForward) {
    for (CorrelationPlan& found : plans) found.unstored_ms = unstored_ms(found, bytes, device) * transposed(found);
  }
  return plans;
}

}  // namespace

bool make_residues(const AxisMap& map, Residues& residues) {
  if (map.dst_step > kMostResidues || map.taps > kMostAxisTaps) return false;
  residues = {};
  residues.count = map.dst_step;
  residues.size = map.dst_size;
  residues.extent = static_cast<int32_t>(ceil_div(map.dst_size, map.dst_step));
  residues.taps = map.taps;
  residues.tap_step = map.tap_step;
  for (int32_t p = 0; p < map.phases; ++p) {
    const AxisPhase phase = axis_phase(map, p);
    residues.first_tap[phase.residue] = static_cast<int16_t>(phase.first_tap);
    residues.tap_count[phase.residue] = static_cast<int16_t>(phase.tap_count);
  }
  for (int32_t e = 1; e < residues.count; ++e) {
    residues.taps_before[e] = static_cast<int16_t>(residues.taps_before[e - 1] + residues.tap_count[e - 1]);
  }
  return true;
}

std::vector<CorrelationPlan> correlation_candidates(const Problem& problem, Correlation correlation, DataType dtype,
                                                    int terms, const Tensors& tensors, const DeviceTraits& device,
                                                    int64_t most_copied) {
  return search(problem, correlation, dtype, terms, tensors, device, most_copied, true);
}

std::optional<CorrelationPlan> plan_correlation(const Problem& problem, Correlation correlation, DataType dtype,
                                                int terms, const Tensors& tensors, const DeviceTraits& device,
                                                int64_t most_copied) {
  const std::vector<CorrelationPlan> best =
      search(problem, correlation, dtype, terms, tensors, device, most_copied, false);
  if (best.empty()) return std::nullopt;
  return best[0];
}

std::string to_string(const CorrelationPlan& plan) {
  const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
  std::ostringstream out;
  out << "correlation tile=" << extent.m() << 'x' << extent.n() << " warps=" << extent.warps_m << 'x' << extent.warps_n
      << " terms=" << plan.terms << " box=" << plan.tile.images << 'x' << plan.box[0] << 'x' << plan.box[1] << 'x'
      << plan.box[2] << " rows=" << plan.tile.rows << " chunk=" << plan.chunk_steps * kStepBytes
      << "B chunks=" << plan.chunks << " stages=" << plan.stages() << " buffers=" << plan.buffers
      << " ahead=" << plan.ahead << " weights="
      << (plan.weights_stay ? "stay" : std::to_string(plan.slots) + "x" + std::to_string(plan.slot_steps))
      << " phases=" << plan.block_phases << '/' << plan.phases() << " n_blocks=" << plan.n_blocks
      << " groups=" << plan.groups << (plan.joined > 1 ? " joined=" + std::to_string(plan.joined) : "")
      << " boxes=" << plan.box_count() << (plan.k_splits > 1 ? " k_splits=" + std::to_string(plan.k_splits) : "")
      << " blocks=" << plan.blocks() << " shared=" << plan.shared_bytes << " load=" << to_string(plan.way)
      << (plan.reads_pairs() ? " width_pairs" : "")
      << (plan.store == StoreWay::kChannels ? " store=channels"
          : plan.store == StoreWay::kPairs  ? " store=width_pairs"
          : plan.joins_width                ? " store=rows"
                                            : " store=elements")
      << (plan.masked ? " masked" : "");
  if (plan.copy.exists) out << " copied portion=" << to_string(plan.portions);
  return out.str();
}

}  // namespace convt3d::mma
