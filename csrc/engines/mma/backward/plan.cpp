#include "engines/mma/backward/plan.h"

#include <algorithm>
#include <sstream>

#include "core/integer.h"
#include "engines/mma/backward/cost.h"
#include "engines/mma/correlation/memory.h"
#include "engines/mma/tile/box_extents.h"
#include "engines/mma/weight_grad/memory.h"
#include "engines/mma/weight_grad/splits.h"

namespace convt3d::mma {
namespace {

constexpr int32_t kMostTableSteps = 2048;
constexpr int64_t kMostBackwardWorkspace = int64_t{96} << 20;
constexpr int32_t kMostBoxRows = 1 << 13;  // of grad_output's tile

// Every element of grad_output belongs to one tap of one position, or lies outside of what the kernel reaches.
bool parts_output(const Problem& problem) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (problem.kernel_size[i] != problem.stride[i] || problem.output_padding[i] != 0) return false;
    if (problem.kernel_size[i] > 1 && problem.dilation[i] != 1) return false;
    if (problem.kernel_size[i] > kMostAxisTaps) return false;
  }
  return true;
}

// All taps of an axis in one part, each a component of its own.
TapParts all_taps(const Problem& problem, std::size_t axis) {
  TapParts taps{};
  taps.taps = taps.most = taps.components = static_cast<int32_t>(problem.kernel_size[axis]);
  taps.step = static_cast<int32_t>(problem.stride[axis]);
  taps.padding = static_cast<int32_t>(problem.padding[axis]);
  taps.dilation = static_cast<int32_t>(problem.dilation[axis]);
  taps.stride = taps.parts = 1;
  return taps;
}

BackwardLayout backward_layout(const BackwardPlan& plan) {
  const ShapeExtent extent = shape_extent(plan.input.shape, plan.grad.terms);
  int64_t end = 0;
  const auto take = [&](int64_t bytes) {
    const int64_t begin = end;
    end = round_up(end + bytes, kPieceBytes);
    return static_cast<int32_t>(begin);
  };
  BackwardLayout layout{};
  layout.share = take(kShareBytes);
  layout.offsets = take(8 * extent.warps() * extent.warp_m);
  layout.steps = take(4 * (plan.k_steps() + kFurtherSteps));
  const bool sums_rows = plan.grad.bias == BiasSums::kMultiplyingWarps;
  layout.bias = take(sums_rows ? int64_t{64} * plan.grad.most_fragments() * plan.grad.warps_k : 0);
  layout.staging = take(plan.input.staging_bytes);
  layout.weights = take(int64_t{plan.weight_steps()} * step_bytes(extent, plan.grad.terms));
  layout.bytes = end;
  return layout;
}

class Search {
 public:
  // `problem`: of width pairs, that of words.
  Search(const Problem& problem, const BackwardPlan& base, const OperandTraits& grad_input, const DeviceTraits& device)
      : problem_(problem),
        base_(base),
        grad_input_(grad_input),
        row_vector_(row_vector(grad_input, base.result_bytes, base.grad.halves() * problem.input_size[2])),
        device_(device) {}

  std::vector<BackwardPlan> operator()() {
    for (const Shape shape : kBackwardShapes) {
      const int32_t n = shape_extent(shape, base_.grad.terms).n();
      if (!has_backward_shape(shape, base_.grad.terms, has_channel_rows(base_.grad.layouts.grad))) continue;
      if (n < base_.grad.n_channels || (n > 16 && n >= 2 * round_up(base_.grad.n_channels, 8))) continue;
      with_shape(shape);
    }
    return std::move(plans_);
  }

 private:
  struct Box {
    std::array<int32_t, 3> size;
    int32_t images;
  };

  void with_shape(Shape shape) {
    BackwardPlan plan = base_;
    plan.input.shape = shape;
    plan.warpgroup = plan.grad.terms == 1 && plan.result_bytes == 4 && device_.has(Engine::kWgmma);
    const ShapeExtent extent = shape_extent(shape, plan.grad.terms);
    plan.input.channel_vector = channel_vector(grad_input_, plan.result_bytes, plan.grad.n_channels,
                                               lane_channels(extent.warp_n, plan.result_bytes));
    plan.input.store = plan.input.channel_vector > 0 ? StoreWay::kChannels : StoreWay::kRows;
    WeightGradPlan& grad = plan.grad;
    grad.columns = backward_columns(shape, grad.terms);
    grad.warps_groups = 1;
    grad.warps_n = 1;
    while (grad.warps_n * grad.columns * 8 < grad.n_channels) grad.warps_n *= 2;
    const std::size_t before = plans_.size();
    for (const bool any : {false, true}) {
      if (plans_.size() == before) with_boxes(plan, boxes_of(extent.m() / base_.grad.halves(), any));
    }
  }

  void with_boxes(BackwardPlan plan, std::vector<Box> boxes) {
    WeightGradPlan& grad = plan.grad;
    for (grad.warps_m = 1; grad.warps_m * grad.warps_n <= kGradWarps; grad.warps_m *= 2) {
      if (ceil_div(grad.most_fragments(), grad.warps_m) > backward_rows(plan.input.shape, grad.terms)) continue;
      grad.warps_k = kGradWarps / (grad.warps_m * grad.warps_n);
      grad.n_chunk = grad.warps_n * grad.columns * 8;
      const Box best = with_warps(plan, boxes);
      if (best.images > 0) boxes = {best};  // other warps share it out anew
    }
  }

  // Boxes that do not leave most of a tile's positions empty or, where the stages of none of these fit, `any`.
  std::vector<Box> boxes_of(int32_t most, bool any) const {
    const Int3& size = problem_.input_size;
    const auto whole = [&](std::size_t i) { return static_cast<int32_t>(std::min<int64_t>(size[i], 1 << 20)); };
    const int64_t all = size[0] * size[1] * size[2];
    std::vector<Box> boxes;
    for (const int32_t w : box_extents(whole(2), most)) {
      for (const int32_t h : box_extents(whole(1), most / w)) {
        for (const int32_t d : box_extents(whole(0), most / w / h)) {
          const int64_t positions = int64_t{w} * h * d;
          if (4 * positions < most && positions < all && !any) continue;
          int64_t images = positions == all ? std::clamp<int64_t>(most / all, 1, base_.grad.batch) : 1;
          boxes.push_back({{d, h, w}, static_cast<int32_t>(images)});
          while (any && images > 1) boxes.push_back({{d, h, w}, static_cast<int32_t>(images /= 2)});
        }
      }
    }
    return boxes;
  }

  // Keeps the best plan of these boxes, and says which one has it; one without images where none fits.
  Box with_warps(const BackwardPlan& plan, const std::vector<Box>& boxes) {
    BackwardPlan best = plan;
    best.cost_ms = -1;
    for (const Box& box : boxes) {
      BackwardPlan boxed = plan;
      if (with_box(boxed, box.size, box.images) && (best.cost_ms < 0 || boxed.cost_ms < best.cost_ms)) best = boxed;
    }
    if (best.cost_ms < 0) return {};
    plans_.push_back(best);
    return {best.grad.box, best.grad.images};
  }

  // All that follows from the box; false where it does not fit.
  bool with_box(BackwardPlan& plan, const std::array<int32_t, 3>& box, int32_t images) const {
    WeightGradPlan& grad = plan.grad;
    grad.box = box;
    grad.images = images;
    grad.steps = static_cast<int32_t>(ceil_div(int64_t{images} * box[0] * box[1] * box[2], kGradStep));
    grad.boxes[0] = ceil_div(grad.batch, images);
    std::array<TileAxis, 3> of_grad{};
    std::array<TileAxis, 3> of_input{};
    int64_t rows = images;
    for (std::size_t i = 0; i < 3; ++i) {
      TapParts& taps = grad.taps[i];
      grad.boxes[i + 1] = ceil_div(problem_.input_size[i], box[i]);
      taps.length = box[i];
      of_grad[i].source_size = static_cast<int32_t>(problem_.output_size(static_cast<int>(i)));
      of_grad[i].step = taps.step;
      of_grad[i].components = taps.components;
      for (int32_t component = 0; component < taps.components; ++component)
        of_grad[i].delta[component] = component - taps.padding;
      of_input[i].source_size = static_cast<int32_t>(problem_.input_size[i]);
      of_input[i].step = of_input[i].components = 1;
      of_grad[i].box = of_grad[i].length = of_input[i].box = of_input[i].length = box[i];
      rows *= of_grad[i].rows();
    }
    if (rows > kMostBoxRows) return false;
    const int32_t in_piece = kPieceBytes / grad.element_bytes;
    if (grad.pairs.exist) of_grad[2].beyond = grad.pairs_apart;
    const int32_t grad_pieces = plan.channel_steps * kStepBytes / kPieceBytes;
    if (has_channel_rows(grad.layouts.grad)) {
      const int32_t elements = copied_elements(grad.layouts.grad_begin == RowsBegin::kWhole, of_grad[2], grad.boxes[3]);
      grad.grad =
          make_channel_rows(of_grad, images, grad_pieces, elements, elements_before(of_grad[2], elements), false);
    } else {
      grad.grad = make_tile(of_grad, images, grad_pieces);
    }
    grad.input = has_channel_rows(grad.layouts.input) ? input_channel_rows(grad, of_input)
                                                      : make_tile(of_input, images, grad.n_chunk / in_piece);
    const int32_t step = grad.boxes[3] == 1 ? 0 : box[2];  // from a box to the next
    grad.grad_shape =
        make_load_shape(grad.grad, grad.layouts.grad, grad.element_bytes,
                        {grad.layouts.grad_begin, step * grad.taps[2].step, grad.layouts.grad_part}, kLoadingThreads);
    grad.input_shape = make_load_shape(grad.input, grad.layouts.input, grad.element_bytes,
                                       {grad.layouts.input_begin, step, grad.layouts.input_part}, kLoadingThreads);
    plan.input.tile = grad.grad;
    plan.input.box = {box[0], box[1], base_.grad.halves() * box[2]};
    plan.input.boxes = grad.boxes;
    if (!set_tables(plan.input, plan.result_bytes, kMostTableSteps, row_vector_)) return false;
    plan.layout = backward_layout(plan);
    if (!set_memory(grad, device_.shared_bytes, plan.layout.bytes)) return false;
    choose_splits(grad, device_, [&](WeightGradPlan& priced) { priced.cost_ms = backward_cost_ms(plan, device_); });
    plan.cost_ms = grad.cost_ms;
    return plan.workspace_bytes() <= kMostBackwardWorkspace;
  }

  const Problem& problem_;
  const BackwardPlan base_;
  const OperandTraits& grad_input_;
  const int32_t row_vector_;
  const DeviceTraits& device_;
  std::vector<BackwardPlan> plans_;
};

// How the operands are read: `problem` and `grad` are those of words where these are width pairs.
struct Reading {
  Problem problem;
  WeightGradPlan grad;
  std::array<AxisMap, 3> axis;  // of the input gradient
};

// grad_output is transposed while it is staged or read as it lies: of 16 bits as words.
std::vector<Reading> readings(const Problem& problem, DataType dtype, int terms, const Operands& operands) {
  std::array<AxisMap, 3> axis{};
  for (std::size_t i = 0; i < 3; ++i) axis[i] = input_grad_axis(problem, static_cast<int>(i));
  std::vector<Reading> result;
  const auto add = [&](bool channel_rows) {
    const GradLayouts layouts = grad_layouts(problem, dtype, operands, channel_rows);
    if (channel_rows && !has_channel_rows(layouts.grad)) return;
    result.push_back({problem, weight_grad_base(problem, dtype, terms, layouts), axis});
  };
  add(false);
  add(true);
  const std::optional<PairedGrad> paired = paired_grad(problem, dtype, operands);
  const std::optional<PairedAxis> width = paired_axis(axis[2]);
  // Each half of a word is one tap of one position: its sums are added once.
  if (paired && width && width->pairs.first_tap == 0 && width->pairs.taps % 2 == 0) {
    axis[2] = width->map;
    result.push_back({paired->words.problem, paired->base, axis});
  }
  return result;
}

std::vector<BackwardPlan> search(const Reading& reading, int32_t result_bytes, const OperandTraits& grad_input,
                                 const std::optional<BiasTaps>& bias, const DeviceTraits& device) {
  BackwardPlan plan{};
  plan.result_bytes = result_bytes;
  WeightGradPlan& grad = plan.grad;
  grad = reading.grad;
  if (bias) {
    grad.bias = grad.terms > 1 ? BiasSums::kLoadingWarps : BiasSums::kMultiplyingWarps;
    grad.bias_taps = *bias;
  }
  grad.row_chunk = static_cast<int32_t>(round_up(grad.row_channels, 8));
  grad.row_chunks = grad.n_chunks = 1;
  grad.group_blocks = static_cast<int32_t>(grad.groups);
  CorrelationPlan& input = plan.input;
  input.axis = reading.axis;
  for (std::size_t i = 0; i < 3; ++i) {
    grad.taps[i] = all_taps(reading.problem, i);
    if (!make_residues(input.axis[i], input.residues[i])) return {};
  }
  plan.channel_steps = static_cast<int32_t>(ceil_div(int64_t{grad.row_channels} * grad.element_bytes, kStepBytes));
  input.pairs = grad.pairs;
  input.source_bytes = grad.element_bytes;
  input.terms = grad.terms;
  input.joined = input.n_blocks = input.block_phases = input.chunk_steps = input.k_splits = 1;
  input.chunks = plan.channel_steps;
  input.batch = grad.batch;
  input.groups = grad.groups;
  input.k_channels = grad.row_channels;
  input.n_channels = grad.n_channels;
  input.order = BoxOrder::kHeight;
  return Search(reading.problem, plan, grad_input, device)();
}

}  // namespace

std::vector<BackwardPlan> backward_candidates(const Problem& problem, DataType dtype, int terms,
                                              const Operands& operands, bool sums_bias, const DeviceTraits& device) {
  if (dtype == DataType::kFloat64 || !parts_output(problem)) return {};
  const std::optional<BiasTaps> bias = sums_bias ? bias_taps(problem) : std::nullopt;
  std::vector<BackwardPlan> plans;
  for (const Reading& reading : readings(problem, dtype, terms, operands)) {
    const std::vector<BackwardPlan> more =
        search(reading, static_cast<int32_t>(element_size(dtype)), operands.result, bias, device);
    plans.insert(plans.end(), more.begin(), more.end());
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const BackwardPlan& a, const BackwardPlan& b) { return a.cost_ms < b.cost_ms; });
  return plans;
}

std::optional<BackwardPlan> plan_backward(const Problem& problem, DataType dtype, int terms, const Operands& operands,
                                          bool sums_bias, const DeviceTraits& device) {
  const std::vector<BackwardPlan> plans = backward_candidates(problem, dtype, terms, operands, sums_bias, device);
  if (plans.empty()) return std::nullopt;
  return plans.front();
}

std::string to_string(const BackwardPlan& plan) {
  const ShapeExtent extent = shape_extent(plan.input.shape, plan.grad.terms);
  const WeightGradPlan& grad = plan.grad;
  std::ostringstream out;
  out << "backward terms=" << grad.terms << " box=" << grad.images << 'x' << grad.box[0] << 'x' << grad.box[1] << 'x'
      << grad.box[2] << " tile=" << extent.m() << 'x' << extent.n() << (plan.warpgroup ? " warpgroup" : "")
      << " warps=(" << grad.warps_m << " rows, " << grad.warps_n << " columns, " << grad.warps_k
      << " positions) splits=" << grad.splits << " split_boxes=" << grad.split_boxes
      << " segment_boxes=" << grad.segment_boxes << " stages=" << grad.stages << " ahead=" << grad.ahead
      << " shared_bytes=" << grad.layout.bytes << " load=" << to_string(grad.layouts.grad) << ','
      << to_string(grad.layouts.input) << (grad.pairs.exist ? " width_pairs" : "")
      << (plan.input.store == StoreWay::kChannels ? " store=channels" : " store=rows")
      << (grad.layouts.masked ? " masked" : "") << (grad.has_bias() ? " bias" : "");
  return out.str();
}

}  // namespace convt3d::mma
