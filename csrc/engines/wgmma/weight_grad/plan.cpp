#include "engines/wgmma/weight_grad/plan.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "core/integer.h"
#include "core/segments.h"
#include "device/swizzle.h"
#include "engines/wgmma/weight_grad/boxes.h"
#include "engines/wgmma/weight_grad/cost.h"
#include "engines/wgmma/weight_grad/turned_box.h"

namespace convt3d {
namespace {

constexpr int32_t kMostExtent = 256;  // of a box, in elements of the tensor
constexpr int32_t kMostTmaStep = 8;   // from an element of a box to the next
constexpr int32_t kMostPartTaps = 4;  // along an axis
constexpr int32_t kLeastPositions = 32;
constexpr int64_t kMostWorkspaceBytes = int64_t{64} << 20;
constexpr std::size_t kMostCandidates = 24;

// The taps of an axis in parts of one residue or, `all_rows`, of neighbours whatever their residue.
WgmmaGradTaps taps_of(const Problem& problem, std::size_t axis, int32_t most, bool all_rows = false) {
  WgmmaGradTaps taps{};
  taps.taps = static_cast<int32_t>(problem.kernel_size[axis]);
  taps.step = static_cast<int32_t>(problem.stride[axis]);
  taps.padding = static_cast<int32_t>(problem.padding[axis]);
  taps.dilation = static_cast<int32_t>(problem.dilation[axis]);
  const int32_t common = all_rows ? 1 : std::gcd(taps.step, taps.dilation);
  taps.residues = all_rows ? 1 : std::min(taps.step / common, taps.taps);
  taps.rows = all_rows ? taps.step : 1;
  taps.shift = taps.dilation / common;
  taps.most = most;
  const int64_t longest = ceil_div(taps.taps, taps.residues);
  const auto whole = static_cast<int32_t>(ceil_div(longest, most)) - 1;  // parts of every residue before its last
  taps.parts = taps.residues * whole + std::min(taps.residues, taps.taps - whole * most * taps.residues);
  return taps;
}

class Search {
 public:
  Search(const Problem& problem, int32_t terms, const DeviceTraits& device, const BiasTaps& bias)
      : problem_(problem), terms_(terms), device_(device), bias_(bias) {}

  std::vector<WgmmaWeightGradPlan> operator()(WgmmaGradForm form) {
    WgmmaWeightGradPlan plan{};
    plan.form = form;
    plan.terms = terms_;
    plan.batch = problem_.batch;
    plan.bias = bias_;
    plan.groups = static_cast<int32_t>(problem_.groups);
    plan.in_channels = static_cast<int32_t>(problem_.in_channels_per_group());
    plan.out_channels = static_cast<int32_t>(problem_.out_channels_per_group());
    if (plan.turned()) {
      turned_boxes_ = turned_boxes(problem_);
      for (const WgmmaGradInstruction instruction : kWgmmaTurnedInstructions) {
        plan.instruction = instruction;
        if (turned_fits(instruction, terms_)) visit_taps(plan, 0);
      }
    } else {
      for (const WgmmaGradInstruction instruction : kWgmmaGradInstructions) {
        plan.instruction = instruction;
        visit_taps(plan, 0);
      }
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const WgmmaWeightGradPlan& a, const WgmmaWeightGradPlan& b) { return a.cost_ms < b.cost_ms; });
    if (found_.size() > kMostCandidates) found_.resize(kMostCandidates);
    return std::move(found_);
  }

 private:
  void visit_taps(WgmmaWeightGradPlan& plan, std::size_t axis) {
    if (axis == 3) return plan.turned() ? visit_turned_panels(plan) : visit_panels(plan);
    for (const bool all_rows : {false, true}) {
      const WgmmaGradTaps all = taps_of(problem_, axis, 1, all_rows);
      // Rows that no tap of a part reads are for those alone whose taps differ in their residues.
      if (all_rows && (!plan.turned() || taps_of(problem_, axis, 1).residues == 1)) continue;
      const int64_t longest = ceil_div(all.taps, all.residues);
      for (int32_t most = all_rows ? 2 : 1; most <= std::min<int64_t>(longest, kMostPartTaps); ++most) {
        // Of as many parts, the fewest taps.
        if (most > 1 && ceil_div(longest, most) == ceil_div(longest, most - 1)) continue;
        plan.taps[axis] = taps_of(problem_, axis, most, all_rows);
        visit_taps(plan, axis + 1);
      }
    }
  }

  // With panels of both tiles and an instruction: the best boxes.
  template <typename Visit>
  void best_of_boxes(WgmmaWeightGradPlan& plan, Visit&& visit) {
    const int64_t columns = plan.columns_of_sets(plan.taps[0].most, plan.taps[1].most, plan.taps[2].most);
    if (ceil_div(columns, plan.shares_columns() ? 2 : 1) * plan.instruction.widths != plan.instruction.sets) return;
    plan.m_chunks = static_cast<int32_t>(ceil_div(plan.m_channels(), plan.chunk_rows()));
    plan.n_chunks = static_cast<int32_t>(ceil_div(plan.n_channels(), plan.chunk_columns()));
    best_.reset();
    visit();
    if (best_) found_.push_back(*best_);
  }

  void visit_turned_panels(WgmmaWeightGradPlan& plan) {
    plan.input.panels = plan.instruction.panels;
    const WgmmaGradTaps& width = plan.taps[2];
    const int32_t widths = plan.instruction.widths;
    if (widths > 1 && (width.most != widths || width.rows != 1 || width.shift != 1)) return;
    // A narrower instruction has all channels, too.
    if (plan.input.panels > 1 && plan.in_channels <= (plan.input.panels - 1) * kWgmmaTurnedPanelChannels) return;
    for (const int32_t rows : {1, 2}) {
      if (rows > 1 && plan.out_channels <= kWgmmaTurnedRows) continue;
      plan.grad.panels = rows * kWgmmaTurnedRows / kWgmmaTurnedPanelChannels;
      best_of_boxes(plan, [&] {
        for (const TurnedBox& box : turned_boxes_) with_turned_box(plan, box);
      });
    }
  }

  void with_turned_box(WgmmaWeightGradPlan& plan, const TurnedBox& box) {
    // Taps beside each other share words where a thread's two positions are neighbours along the width.
    if (plan.instruction.widths > 1 && (box.images > 1 || box.block[2] % 2 != 0)) return;
    plan.images = box.images;
    std::copy(std::begin(box.extent), std::end(box.extent), plan.box);
    std::copy(std::begin(box.block), std::end(box.block), plan.block);
    for (const WgmmaGradTaps& taps : plan.taps) {
      if (taps.extent(plan.box[&taps - plan.taps]) * taps.every() > kMostExtent) return;
    }
    // Of eight rows one after another, or of every second row, those at K's first columns lie in different banks.
    plan.pairs_of_rows = plan.taps[2].rows % 2 != 0 ? 1 : 0;
    plan.steps = plan.blocks_of_box() * plan.block_steps();
    with_extents(plan);
  }

  void visit_panels(WgmmaWeightGradPlan& plan) {
    for (plan.input.panels = 1; plan.input.panels <= 2; ++plan.input.panels) {
      if (plan.input.panels > 1 && plan.in_channels <= kWgmmaGradPanelChannels) continue;
      const int32_t most = plan.has_bias() ? kWgmmaGradMostBiasPanels : kWgmmaGradMostPanels;
      for (plan.grad.panels = 1; plan.grad.panels <= most; ++plan.grad.panels) {
        if (plan.grad.panels > 1 && plan.out_channels <= (plan.grad.panels - 1) * kWgmmaGradPanelChannels) continue;
        if ((plan.taps_in_n() ? plan.taps[2].most : plan.grad.panels) != plan.instruction.panels) continue;
        best_of_boxes(plan, [&] { visit_boxes(plan); });
      }
    }
  }

  void visit_boxes(WgmmaWeightGradPlan& plan) {
    const auto most = [&](std::size_t axis) {
      return std::min(kMostExtent / plan.taps[axis].step - plan.taps[axis].reach(),
                      kWgmmaGradMostSteps * kWgmmaGradStep);
    };
    const Int3& size = problem_.input_size;
    for (const int32_t images : {1, 2, 4, 8, 16}) {
      if (images > 1 && images >= 2 * plan.batch) continue;
      plan.images = images;
      for (const int32_t width : turned_extents(size[2], most(2))) {
        for (const int32_t height : turned_extents(size[1], most(1))) {
          for (const int32_t depth : turned_extents(size[0], most(0))) {
            plan.box[0] = depth;
            plan.box[1] = height;
            plan.box[2] = width;
            with_box(plan);
          }
        }
      }
    }
  }

  void with_box(WgmmaWeightGradPlan& plan) {
    const int64_t positions = int64_t{plan.images} * plan.box[0] * plan.box[1] * plan.box[2];
    if (positions % kWgmmaGradStep != 0 || positions < kLeastPositions) return;
    if (positions > int64_t{kWgmmaGradMostSteps} * kWgmmaGradStep) return;
    // Rows that are neighbours in both tiles.
    int64_t run = int64_t{plan.images} * plan.box[2];
    if (plan.taps[2].reach() == 0) {
      run *= plan.box[1];
      if (plan.taps[1].reach() == 0) run *= plan.box[0];
    }
    if (run % 8 != 0) return;
    plan.steps = static_cast<int32_t>(positions / kWgmmaGradStep);
    with_extents(plan);
  }

  void with_extents(WgmmaWeightGradPlan& plan) {
    int64_t halo = plan.images;
    int64_t positions = plan.images;
    for (std::size_t i = 0; i < 3; ++i) {
      plan.input.extent[i] = plan.turned() ? plan.block[i] : plan.box[i];
      plan.grad.extent[i] = plan.taps[i].extent(plan.box[i]);
      positions *= plan.box[i];
      halo *= plan.grad.extent[i];
      plan.boxes[i + 1] = ceil_div(problem_.input_size[i], plan.box[i]);
    }
    plan.boxes[0] = ceil_div(plan.batch, plan.images);
    plan.input.panel_bytes = static_cast<int32_t>(round_up(positions * kWgmmaGradRowBytes, kSwizzleBytes));
    plan.grad.panel_bytes = static_cast<int32_t>(round_up(halo * kWgmmaGradRowBytes, kSwizzleBytes));
    const int64_t room = (device_.shared_bytes - kWgmmaGradBarrierBytes) / plan.stage_bytes();
    if (room < 2) return;
    plan.stages = static_cast<int32_t>(std::min<int64_t>(room, kWgmmaGradMostStages));
    split(plan);
  }

  void split(WgmmaWeightGradPlan& plan) {
    const int64_t boxes = plan.box_count();
    const int64_t most = std::max<int64_t>(1, kMostWorkspaceBytes / (4 * plan.gradient_elements()));
    const int64_t positions = int64_t{plan.steps} * plan.step_positions();
    int64_t before = 0;
    for (const int64_t waves : {1, 2, 3}) {
      const int64_t wanted =
          std::clamp<int64_t>(waves * device_.multiprocessors / plan.tiles(), 1, std::min(most, boxes));
      if (wanted == before) continue;
      before = wanted;
      plan.split_boxes = ceil_div(boxes, wanted);
      plan.splits = ceil_div(boxes, plan.split_boxes);
      const int64_t segment = segment_positions(plan.terms, positions, positions * plan.split_boxes);
      plan.segment_boxes = static_cast<int32_t>(std::max<int64_t>(1, segment / positions));
      set_cost(plan, device_);
      if (!best_ || plan.cost_ms < best_->cost_ms) best_ = plan;
    }
  }

  const Problem& problem_;
  int32_t terms_;
  const DeviceTraits& device_;
  BiasTaps bias_;
  std::vector<TurnedBox> turned_boxes_;
  std::vector<WgmmaWeightGradPlan> found_;
  std::optional<WgmmaWeightGradPlan> best_;  // of the boxes
};

bool is_for_engine(const Problem& problem, DataType dtype, const Operands& operands) {
  if (element_size(dtype) > 4 || operands.mask.present) return false;
  // Fewer channels leave most of an operand's columns without a use.
  if (problem.in_channels_per_group() < 32 || problem.out_channels_per_group() < 32) return false;
  constexpr int64_t kMostCoordinates = int64_t{1} << 30;
  for (std::size_t i = 0; i < 3; ++i) {
    if (problem.stride[i] > kMostTmaStep || problem.kernel_size[i] > kMostSmall / 2) return false;
    if (problem.output_size(static_cast<int>(i)) + problem.dilation[i] * problem.kernel_size[i] > kMostCoordinates)
      return false;
  }
  return can_box(problem, element_size(dtype), operands);
}

}  // namespace

std::vector<WgmmaWeightGradPlan> wgmma_weight_grad_candidates(const Problem& problem, DataType dtype, int32_t terms,
                                                              const Operands& operands, const DeviceTraits& device,
                                                              bool sums_bias) {
  if (!is_for_engine(problem, dtype, operands)) return {};
  const std::optional<BiasTaps> bias = sums_bias ? bias_taps(problem) : BiasTaps{};
  if (!bias) return {};
  return Search(problem, terms, device,
                *bias)(element_size(dtype) == 4 ? WgmmaGradForm::kTurned : WgmmaGradForm::kRows);
}

std::optional<WgmmaWeightGradPlan> plan_wgmma_weight_grad(const Problem& problem, DataType dtype, int32_t terms,
                                                          const Operands& operands, const DeviceTraits& device,
                                                          bool sums_bias) {
  const std::vector<WgmmaWeightGradPlan> all =
      wgmma_weight_grad_candidates(problem, dtype, terms, operands, device, sums_bias);
  return all.empty() ? std::nullopt : std::optional(all[0]);
}

std::string to_string(const WgmmaWeightGradPlan& plan) {
  std::ostringstream out;
  const auto three = [&](const char* name, auto&& value) {
    out << ' ' << name << "=(" << value(0) << ", " << value(1) << ", " << value(2) << ')';
  };
  out << "weight_grad n=" << plan.columns() << " sets=" << plan.instruction.sets
      << " n_of=" << (plan.taps_in_n() ? "taps" : "channels") << (plan.terms > 1 ? " terms=2" : "")
      << " panels=" << plan.input.panels << '+' << plan.grad.panels << " images=" << plan.images;
  three("box", [&](std::size_t i) { return plan.box[i]; });
  if (plan.turned()) three("block", [&](std::size_t i) { return plan.block[i]; });
  three("halo", [&](std::size_t i) { return plan.grad.extent[i]; });
  three("tap_parts", [&](std::size_t i) { return plan.taps[i].parts; });
  three("part_taps", [&](std::size_t i) { return plan.taps[i].most; });
  out << " tiles=" << plan.tiles() << " splits=" << plan.splits << " split_boxes=" << plan.split_boxes
      << " segment_boxes=" << plan.segment_boxes << " stages=" << plan.stages << " shared_bytes=" << plan.shared_bytes()
      << (plan.has_bias() ? " bias" : "");
  return out.str();
}

}  // namespace convt3d
