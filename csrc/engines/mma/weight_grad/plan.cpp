#include "engines/mma/weight_grad/plan.h"

#include <algorithm>
#include <sstream>

#include "core/integer.h"
#include "engines/mma/tile/box_extents.h"
#include "engines/mma/tile/multiprocessor_cost.h"
#include "engines/mma/tile/tap_parts.h"
#include "engines/mma/weight_grad/cost.h"
#include "engines/mma/weight_grad/memory.h"
#include "engines/mma/weight_grad/search.h"
#include "engines/mma/weight_grad/splits.h"

namespace convt3d::mma {
namespace {

constexpr int64_t kMostPositions = 512;                 // positions of a box
constexpr int32_t kMostTileRows = 1 << 14;              // rows of one tile in shared memory
constexpr int64_t kMostCoordinates = int64_t{1} << 28;  // coordinates that a tile spans along an axis
constexpr int32_t kMostRowChunk = 128;
constexpr int32_t kMostNChunk = 256;
constexpr double kWorthPadding = 1.6;      // times the best cost, up to which padding of lines is tried
constexpr std::size_t kJudgedBoxes = 100;  // boxes that are priced for an arrangement of the warps
constexpr std::size_t kGuessedBoxes = 12;  // arrangements that are priced with a guessed box
constexpr std::size_t kTriedBoxes = 4;     // arrangements, the best of these, whose likeliest boxes are priced

TileAxis tile_axis(int64_t source_size, int32_t box, int32_t step, int32_t length, int32_t components) {
  TileAxis axis{};
  axis.source_size = static_cast<int32_t>(source_size);
  axis.box = box;
  axis.step = step;
  axis.length = length;
  axis.components = components;
  return axis;
}

// Rows of a component of grad_output for so many positions.
int64_t component_length(const TapParts& taps, int32_t box) {
  const int64_t last = (taps.most - 1) / taps.components;
  return box + last * taps.components * taps.stride * taps.dilation / taps.step;
}

class Search {
 public:
  Search(const Problem& problem, const DeviceTraits& device, const WeightGradPlan& base, int64_t most_copied)
      : problem_(problem), device_(device), base_(base), most_copied_(most_copied) {
    for (std::size_t i = 0; i < 3; ++i) parts_[i] = tap_parts(problem, i);
  }

  std::vector<WeightGradPlan> operator()() {
    for (const int32_t columns : kGradColumns) {
      for (int32_t groups = 1; groups <= kGradWarps; groups *= 2) {
        if (!joins_groups(groups)) continue;
        for (int32_t n = 1; n * groups <= kGradWarps; n *= 2) {
          for (int32_t m = 1; m * n * groups <= kGradWarps; m *= 2) arrange(columns, groups, n, m);
        }
      }
    }
    const auto cheaper = [](const WeightGradPlan& a, const WeightGradPlan& b) { return a.cost_ms < b.cost_ms; };
    const auto keep_best = [&](std::vector<WeightGradPlan>& plans, std::size_t count) {
      std::stable_sort(plans.begin(), plans.end(), cheaper);
      if (plans.size() > count) plans.resize(count);
    };
    std::stable_sort(arrangements_.begin(), arrangements_.end(),
                     [](const Arrangement& a, const Arrangement& b) { return a.clocks < b.clocks; });
    for (const Arrangement& arrangement : arrangements_) {
      if (plans_.size() == kGuessedBoxes) break;
      with_box(plan_of(arrangement));
    }
    keep_best(plans_, kTriedBoxes);
    for (WeightGradPlan& plan : plans_) try_boxes(plan);
    keep_best(plans_, kTriedBoxes);
    return std::move(plans_);
  }

 private:
  // What a block has of channels and taps, before its box is known.
  struct Arrangement {
    int32_t columns;
    int32_t groups;
    int32_t warps_n;
    int32_t warps_m;
    int32_t row_chunk;
    std::array<std::size_t, 3> parts;
    double clocks;  // clocks of a multiprocessor for a position, about
  };

  // Channels of neighbouring groups share rows where all of them are whole eights.
  bool joins_groups(int32_t groups) const {
    return groups == 1 || (base_.groups % groups == 0 && base_.row_channels % 8 == 0 && base_.n_channels % 8 == 0 &&
                           base_.row_channels * groups <= kMostRowChunk && base_.n_channels * groups <= kMostNChunk);
  }

  void arrange(int32_t columns, int32_t groups, int32_t warps_n, int32_t warps_m) {
    const int32_t n_chunk = warps_n * columns * 8;
    const int64_t n_padded = round_up(base_.n_channels, 8);
    if (n_chunk > kMostNChunk || (n_chunk > 8 && n_chunk >= 2 * n_padded)) return;
    if (groups > 1 && n_chunk < base_.n_channels) return;
    const int64_t rows_padded = round_up(base_.row_channels, 8);
    // Of width pairs a word tap has two eights.
    const int32_t most_eights = 2 * grad_rows(columns, base_.terms) * warps_m / base_.halves();
    int64_t last = 0;
    for (const int64_t count : {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 32, 64, 128}) {
      const int64_t chunk = round_up(ceil_div(rows_padded, count), 8);
      if (chunk == last || (groups > 1 && count > 1)) break;
      last = chunk;
      if (chunk > kMostRowChunk || chunk / 8 > most_eights) continue;
      with_taps({columns, groups, warps_n, warps_m, static_cast<int32_t>(chunk), {}, 0},
                most_eights / static_cast<int32_t>(chunk / 8));
    }
  }

  void with_taps(Arrangement arrangement, int32_t most_taps) {
    const auto& parts = arrangement.parts;
    for (arrangement.parts[0] = 0; parts[0] < parts_[0].size(); ++arrangement.parts[0]) {
      const TapParts& d = parts_[0][parts[0]];
      if (d.most > most_taps) continue;
      for (arrangement.parts[1] = 0; parts[1] < parts_[1].size(); ++arrangement.parts[1]) {
        const TapParts& h = parts_[1][parts[1]];
        if (d.most * h.most > most_taps) continue;
        for (arrangement.parts[2] = 0; parts[2] < parts_[2].size(); ++arrangement.parts[2]) {
          const TapParts& w = parts_[2][parts[2]];
          const int32_t taps = d.most * h.most * w.most;
          // Half of the warps would do where the taps fill no more than half of their rows.
          if (taps > most_taps || (2 * taps <= most_taps && arrangement.warps_m > 1)) continue;
          arrangement.clocks = clocks_of(arrangement, d, h, w);
          arrangements_.push_back(arrangement);
        }
      }
    }
  }

  // The clocks of the products and of what is loaded for them.
  double clocks_of(const Arrangement& of, const TapParts& d, const TapParts& h, const TapParts& w) const {
    const int32_t n_chunk = of.warps_n * of.columns * 8;
    const int64_t tiles = int64_t{d.parts} * h.parts * w.parts * ceil_div(base_.n_channels, n_chunk) *
                          ceil_div(base_.row_channels, of.row_chunk) * (base_.groups / of.groups);
    const int64_t eights = int64_t{d.most} * h.most * w.most * (of.row_chunk / 8) * base_.halves();
    const int64_t fragments = ceil_div(ceil_div(eights, 2), of.warps_m) * of.warps_m * of.warps_n * of.groups;
    const int32_t read = base_.pairs.exist ? w.step : w.components;  // along the width, of a position
    const double grad = static_cast<double>(d.components * h.components * read) * of.groups * of.row_chunk;
    const double input = static_cast<double>(of.groups) * n_chunk;
    return static_cast<double>(tiles) *
           position_clocks(static_cast<double>(fragments), of.columns, grad, input, base_, device_);
  }

  WeightGradPlan plan_of(const Arrangement& of) const {
    WeightGradPlan plan = base_;
    plan.columns = of.columns;
    plan.warps_groups = of.groups;
    plan.warps_n = of.warps_n;
    plan.warps_m = of.warps_m;
    plan.warps_k = kGradWarps / (of.groups * of.warps_n * of.warps_m);
    plan.row_chunk = of.row_chunk;
    plan.n_chunk = of.warps_n * of.columns * 8;
    plan.row_chunks = static_cast<int32_t>(ceil_div(plan.row_channels, plan.row_chunk));
    plan.n_chunks = static_cast<int32_t>(ceil_div(plan.n_channels, plan.n_chunk));
    plan.group_blocks = static_cast<int32_t>(plan.groups / of.groups);
    for (std::size_t i = 0; i < 3; ++i) plan.taps[i] = parts_[i][of.parts[i]];
    return plan;
  }

  // Keeps the plan with a guessed box: the largest of these that fits.
  void with_box(WeightGradPlan plan) {
    for (const int32_t most : {256, 128, 64, 32, 16, 4, 1}) {
      std::array<int32_t, 3> box{1, 1, 1};
      int32_t positions = 1;
      for (bool grows = true; grows && positions < most;) {
        grows = false;
        for (const std::size_t axis : {2, 1, 2, 0}) {
          const auto size = static_cast<int32_t>(problem_.input_size[axis]);
          const int32_t next = std::min(2 * box[axis], size);
          if (next == box[axis] || positions / box[axis] * next > most) continue;
          positions = positions / box[axis] * next;
          box[axis] = next;
          grows = true;
        }
      }
      if (finish(plan, box, least_images(box), false)) {
        plans_.push_back(plan);
        return;
      }
    }
  }

  // The least images of a box that is tried: of a box of whole volumes as many as 64 positions have, else one.
  int32_t least_images(const std::array<int32_t, 3>& box) const {
    for (std::size_t i = 0; i < 3; ++i) {
      if (box[i] != problem_.input_size[i]) return 1;
    }
    return static_cast<int32_t>(std::clamp<int64_t>(64 / (int64_t{box[0]} * box[1] * box[2]), 1, base_.batch));
  }

  // Finds the best of the likeliest boxes, which are judged by what products take and what is staged.
  void try_boxes(WeightGradPlan& best) {
    const WeightGradPlan base = best;
    struct Judged {
      std::array<int32_t, 3> box;
      int32_t images;
      double clocks;
    };
    std::vector<Judged> judged;
    const int32_t fragments = kGradWarps * static_cast<int32_t>(ceil_div(base.most_fragments(), base.warps_m));
    const double of_step = kGradStep * position_clocks(fragments, base.columns, 0, 0, base, device_);
    const auto judge = [&](const std::array<int32_t, 3>& box, int64_t images) {
      double boxes = static_cast<double>(ceil_div(base.batch, images));
      double rows = static_cast<double>(images);
      for (std::size_t i = 0; i < 3; ++i) {
        boxes *= static_cast<double>(ceil_div(problem_.input_size[i], box[i]));
        rows *= static_cast<double>(base.taps[i].components * component_length(base.taps[i], box[i]));
      }
      const int64_t positions = images * box[0] * box[1] * box[2];
      const int64_t steps = ceil_div(ceil_div(positions, kGradStep), base.warps_k);
      const double bytes = base.element_bytes * (rows * base.row_chunk + static_cast<double>(positions) * base.n_chunk);
      if (1.5 * bytes > device_.shared_bytes) return;  // stages want room for another, about
      judged.push_back({box, static_cast<int32_t>(images),
                        boxes * at_once({static_cast<double>(steps) * of_step, bytes * kStagedByte})});
    };
    const int64_t positions = problem_.input_size[0] * problem_.input_size[1] * problem_.input_size[2];
    for (const int32_t w : box_extents(problem_.input_size[2], 64)) {
      for (const int32_t h : box_extents(problem_.input_size[1], 32)) {
        for (const int32_t d : box_extents(problem_.input_size[0], 16)) {
          if (d * h * w > kMostPositions || (d * h * w < 32 && d * h * w < positions)) continue;
          // Small volumes come several at a time.
          const int64_t most_images = d * h * w == positions ? std::min(base.batch, kMostPositions / positions) : 1;
          for (int64_t images = least_images({d, h, w}); images <= most_images; images *= 2) judge({d, h, w}, images);
        }
      }
    }
    const auto kept = static_cast<std::ptrdiff_t>(std::min(judged.size(), kJudgedBoxes));
    std::partial_sort(judged.begin(), judged.begin() + kept, judged.end(),
                      [](const Judged& a, const Judged& b) { return a.clocks < b.clocks; });
    judged.resize(static_cast<std::size_t>(kept));
    for (const Judged& one : judged) try_box(base, one.box, one.images, best);
  }

  // Rows are padded where that spares conflicts that cost something.
  void try_box(const WeightGradPlan& base, const std::array<int32_t, 3>& box, int32_t images,
               WeightGradPlan& best) const {
    for (const bool pads : {false, true}) {
      WeightGradPlan plan = base;
      if (!finish(plan, box, images, pads)) return;
      if (plan.cost_ms < best.cost_ms) best = plan;
      const bool waits = plan.grad_accesses > 1 || plan.input_accesses > 1;
      if (!waits || plan.cost_ms > kWorthPadding * best.cost_ms) return;
    }
  }

  // All that follows from the box; false where it does not fit.
  bool finish(WeightGradPlan& plan, const std::array<int32_t, 3>& box, int32_t images, bool pads) const {
    plan.box = box;
    plan.images = images;
    const int64_t of_image = int64_t{box[0]} * box[1] * box[2];
    plan.steps = static_cast<int32_t>(ceil_div(of_image * plan.images, kGradStep));
    std::array<TileAxis, 3> of_grad{};
    std::array<TileAxis, 3> of_input{};
    plan.boxes[0] = ceil_div(plan.batch, plan.images);
    int64_t rows = plan.images;
    for (std::size_t i = 0; i < 3; ++i) {
      TapParts& taps = plan.taps[i];
      plan.boxes[i + 1] = ceil_div(problem_.input_size[i], box[i]);
      const int64_t length = component_length(taps, box[i]);
      rows *= taps.components * length;
      if (rows > kMostTileRows || length * taps.step + taps.components * taps.dilation > kMostCoordinates) return false;
      taps.length = static_cast<int32_t>(length);
      of_grad[i] =
          tile_axis(problem_.output_size(static_cast<int>(i)), box[i], taps.step, taps.length, taps.components);
      for (int32_t component = 0; component < taps.components; ++component)
        of_grad[i].delta[component] = component * taps.stride * taps.dilation - taps.padding;
      of_input[i] = tile_axis(problem_.input_size[i], box[i], 1, box[i], 1);
    }
    if (plan.pairs.exist) of_grad[2].beyond = plan.pairs_apart;
    const int32_t in_piece = kPieceBytes / plan.element_bytes;
    const int32_t joined = plan.warps_groups - 1;
    const int32_t grad_pieces = (joined * plan.row_channels + plan.row_chunk) / in_piece;
    const int32_t input_pieces = (joined * plan.n_channels + plan.n_chunk) / in_piece;
    if (has_channel_rows(plan.layouts.grad)) {
      const int32_t elements = copied_elements(plan.layouts.grad_begin == RowsBegin::kWhole, of_grad[2], plan.boxes[3]);
      int32_t before = 0;
      for (int32_t part = 0; part < plan.taps[2].parts; ++part)
        before = std::max(before, plan.taps[2].offset(part, 0) & (elements - 1));
      plan.grad = make_channel_rows(of_grad, plan.images, grad_pieces, elements, before, false);
    } else {
      set_tile(plan.grad, of_grad, plan, grad_pieces, pads);
    }
    if (has_channel_rows(plan.layouts.input)) {
      plan.input = input_channel_rows(plan, of_input);
    } else {
      set_tile(plan.input, of_input, plan, input_pieces, pads);
    }
    const auto accesses = [&](const StagedTile& tile) {
      return tile.has_channel_rows() ? 1 : read_accesses(tile, plan.element_bytes);
    };
    plan.grad_accesses = accesses(plan.grad);
    plan.input_accesses = accesses(plan.input);
    const int32_t step = plan.boxes[3] == 1 ? 0 : box[2];  // from a box to the next
    plan.grad_shape = make_load_shape(
        plan.grad, plan.layouts.grad, plan.element_bytes,
        {plan.layouts.grad_begin, plan.taps[2].parts == 1 ? step * plan.taps[2].step : 1, plan.layouts.grad_part},
        kLoadingThreads);
    plan.input_shape = make_load_shape(plan.input, plan.layouts.input, plan.element_bytes,
                                       {plan.layouts.input_begin, step, plan.layouts.input_part}, kLoadingThreads);
    if (!set_memory(plan, device_.shared_bytes)) return false;
    if (plan.copies_operands() && !set_operand_copies(plan)) return false;
    choose_splits(plan, device_, [&](WeightGradPlan& priced) { set_cost(priced, device_); });
    return true;
  }

  bool set_operand_copies(WeightGradPlan& plan) const {
    // The tile has the taps of the first part, whose coordinates are the least.
    plan.grad_copy.reach = depth_reach(plan.grad.axis[0]);
    int32_t last = 0;
    for (int32_t part = 0; part < plan.taps[0].parts; ++part) {
      if (plan.taps[0].count(part) > 0) last = std::max(last, plan.taps[0].first(part) * plan.taps[0].dilation);
    }
    plan.grad_copy.reach.last += last;
    plan.input_copy.reach = depth_reach(plan.input.axis[0]);
    return choose_portions(plan.portions, {&plan.grad_copy, &plan.input_copy},
                           {plan.boxes, plan.batch, plan.images, plan.box[0]}, most_copied_);
  }

  void set_tile(StagedTile& tile, const std::array<TileAxis, 3>& axis, const WeightGradPlan& plan, int32_t pieces,
                bool pads) const {
    if (pads) {
      tile = make_tile(axis, plan.images, pieces);
    } else {
      tile = {};
      for (std::size_t i = 0; i < 3; ++i) {
        tile.axis[i] = axis[i];
        tile.staged[i] = make_divisor(axis[i].staged());
      }
      tile.images = plan.images;
      tile.column_step = 1;
      set_pieces(tile, pieces);
      tile.stride[3] = 1;
      for (std::size_t i = 3; i-- > 0;) tile.stride[i] = tile.stride[i + 1] * axis[i].staged();
      tile.rows = plan.images * tile.stride[0];
    }
  }

  const Problem& problem_;
  const DeviceTraits& device_;
  WeightGradPlan base_;
  int64_t most_copied_;
  std::array<std::vector<TapParts>, 3> parts_;
  std::vector<Arrangement> arrangements_;
  std::vector<WeightGradPlan> plans_;
};

}  // namespace

std::vector<WeightGradPlan> search_weight_grad(const Problem& problem, const WeightGradPlan& base,
                                               const DeviceTraits& device, int64_t most_copied) {
  return Search(problem, device, base, most_copied)();
}

const char* copied_name(const WeightGradPlan& plan) {
  if (plan.grad_copy.exists) return plan.input_copy.exists ? "both" : "grad_output";
  return plan.input_copy.exists ? "input" : "none";
}

StagedTile input_channel_rows(const WeightGradPlan& plan, const std::array<TileAxis, 3>& axis) {
  const int32_t elements = copied_elements(plan.layouts.input_begin == RowsBegin::kWhole, axis[2], plan.boxes[3]);
  const int32_t channels = (plan.warps_groups - 1) * plan.n_channels + plan.n_chunk;
  // Positions that fill up the last step have an element that is zero.
  const bool fills = int64_t{plan.images} * plan.box[0] * plan.box[1] * plan.box[2] % kGradStep != 0;
  return make_channel_rows(axis, plan.images, channels * plan.element_bytes / kPieceBytes, elements, 0, fills);
}

std::string to_string(const WeightGradPlan& plan) {
  std::ostringstream out;
  const auto three = [&](const char* name, auto&& value) {
    out << ' ' << name << "=(" << value(0) << ", " << value(1) << ", " << value(2) << ')';
  };
  out << "weight_grad terms=" << plan.terms;
  three("box", [&](std::size_t i) { return plan.box[i]; });
  out << " images=" << plan.images << " warps=(" << plan.warps_groups << " groups, " << plan.warps_m << " rows, "
      << plan.warps_n << " columns, " << plan.warps_k << " positions) columns=" << 8 * plan.columns
      << " row_chunk=" << plan.row_chunk << " n_chunk=" << plan.n_chunk;
  three("tap_parts", [&](std::size_t i) { return plan.taps[i].parts; });
  three("part_taps", [&](std::size_t i) { return plan.taps[i].most; });
  three("tap_steps", [&](std::size_t i) { return plan.taps[i].stride; });
  out << " tiles=" << plan.tiles() << " splits=" << plan.splits << " split_boxes=" << plan.split_boxes
      << " segment_boxes=" << plan.segment_boxes << " stages=" << plan.stages << " ahead=" << plan.ahead
      << " shared_bytes=" << plan.layout.bytes << " load=" << to_string(plan.layouts.grad) << ','
      << to_string(plan.layouts.input) << (plan.pairs.exist ? " width_pairs" : "")
      << (plan.layouts.masked ? " masked" : "") << (plan.has_bias() ? " bias" : "");
  if (plan.copies_operands()) {
    out << " copied=" << copied_name(plan) << " portion=" << to_string(plan.portions);
  }
  return out.str();
}

}  // namespace convt3d::mma
