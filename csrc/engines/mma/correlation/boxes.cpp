// There are thousands of boxes, and each has hundreds of plans. A box is judged here by what all of its plans share:
// products, in vain too, what is staged for them, and what is moved.
#include "engines/mma/correlation/boxes.h"

#include <algorithm>
#include <cmath>

#include "core/integer.h"
#include "engines/mma/correlation/cost.h"
#include "engines/mma/tile/box_extents.h"
#include "engines/mma/tile/multiprocessor_cost.h"

namespace convt3d::mma {
namespace {

// Elements of a run that memory moves in the time that the run costs beside its own.
constexpr double kTornElements = 8;
constexpr double kTransposedByte = 0.07;
// Of a tile that leaves no room for a second one.
constexpr double kOneBuffer = 1.4;
constexpr double kSlots = 16 << 10;  // bytes, of weights, about

// What a number of positions along an axis comes to.
struct Extent {
  int32_t size;
  double boxes;
  std::array<double, 2> rows;    // of a stage, where the axis is whole or split
  std::array<double, 2> stages;  // likewise
};

struct Axis {
  bool single_taps;  // no phase has two taps: to stage the component of one tap is to stage all
  std::vector<Extent> extents;
};

// None where the axis has too many taps, or taps too far apart.
Axis make_axis(const AxisMap& map, int32_t extent, int32_t most) {
  Axis result{map.taps == map.phases, {}};
  std::array<TileAxis, 2> axis;
  if (!make_tile_axis(map, 1, false, axis[0]) || !make_tile_axis(map, 1, true, axis[1])) return result;
  for (const int32_t size : box_extents(extent, most)) {
    Extent one{size, static_cast<double>(ceil_div(extent, size)), {}, {}};
    for (size_t i = 0; i < 2; ++i) {
      one.rows[i] = (axis[i].length - 1 + size) * (axis[i].staged() / axis[i].length);
      one.stages[i] = axis[i].stages();
    }
    result.extents.push_back(one);
  }
  return result;
}

class Judge {
 public:
  Judge(const CorrelationPlan& plan, int32_t element_bytes, const DeviceTraits& device)
      : plan_(plan), device_(device), extent_(shape_extent(plan.shape, plan.terms)) {
    for (size_t i = 0; i < 3; ++i) axis_[i] = make_axis(plan.axis[i], plan.residues[i].extent, extent_.m());
    const auto steps = static_cast<int32_t>(ceil_div(plan.k_channels * plan.source_bytes, kStepBytes));
    products_ = box_products(plan, device, steps) / kProductShare;
    staged_row_ = steps * kStepBytes * (plan.way == LoadWay::kRows ? kTransposedByte : kStagedByte);
    const double moved = device.memory.ahead * device.bytes_per_ms / device.clocks_per_ms / device.multiprocessors;
    written_ = static_cast<double>(plan.phases()) * plan.n_channels / plan.n_blocks * element_bytes / moved;
    shares_ = static_cast<double>(plan.groups) * plan.n_blocks * static_cast<double>(plan.phases());
  }

  std::vector<BoxCandidate> likeliest(size_t most) {
    const int32_t m = extent_.m();
    for (const Extent& w : axis_[2].extents) {
      for (const Extent& h : axis_[1].extents) {
        bool fits = false;
        for (const Extent& d : axis_[0].extents) {
          // Of the depths that fit, none that half of the products would be in vain for.
          const int32_t positions = w.size * h.size * d.size;
          if (positions > m || (fits && 2 * positions <= m)) continue;
          fits = true;
          with_box({&d, &h, &w}, positions);
        }
      }
    }
    const auto kept = std::min(judged_.size(), most);
    std::partial_sort(judged_.begin(), judged_.begin() + static_cast<std::ptrdiff_t>(kept), judged_.end(),
                      [](const Judged& a, const Judged& b) { return a.clocks < b.clocks; });
    std::vector<BoxCandidate> result;
    for (size_t i = 0; i < kept; ++i) result.push_back(judged_[i].box);
    return result;
  }

 private:
  struct Judged {
    BoxCandidate box;
    double clocks;
  };

  void with_box(const std::array<const Extent*, 3>& box, int32_t positions) {
    double boxes = 1;
    for (const Extent* extent : box) boxes *= extent->boxes;
    const auto images = static_cast<int32_t>(boxes == 1 ? std::min<int64_t>(plan_.batch, extent_.m() / positions) : 1);
    boxes *= static_cast<double>(ceil_div(plan_.batch, images));
    // Splits of K fill the device where boxes do not.
    const double turns = boxes * shares_ / device_.multiprocessors;
    const int32_t width = box[2]->size;
    const double source_run = 1.0 * width * plan_.axis[2].src_step;
    const double result_run = 1.0 * width * plan_.residues[2].count;
    const double staged_row = staged_row_ * (plan_.way < LoadWay::kWidth ? 1 : 1 + kTornElements / source_run);
    const double stored =
        images * positions * written_ * (plan_.store == StoreWay::kChannels ? 1 : 1 + kTornElements / result_run);
    for (size_t splits = 0; splits <= 3; ++splits) {
      if (splits > 0 && axis_[splits - 1].single_taps) continue;
      double rows = images;  // of a stage
      double stages = 1;
      for (size_t i = 0; i < 3; ++i) {
        rows *= box[i]->rows[i < splits ? 1 : 0];
        stages *= box[i]->stages[i < splits ? 1 : 0];
      }
      const double tiles = rows * (kStepBytes + (has_channel_rows(plan_.way) ? 0 : kPieceBytes));
      if (tiles + kSlots > device_.shared_bytes) continue;
      const double crowded = 2 * tiles + kSlots > device_.shared_bytes ? kOneBuffer : 1;
      const double clocks =
          (turns < 1 ? turns : std::ceil(turns)) * crowded * at_once({products_, rows * stages * staged_row, stored});
      judged_.push_back({{{box[0]->size, box[1]->size, width}, images, static_cast<int>(splits)}, clocks});
    }
  }

  const CorrelationPlan& plan_;
  const DeviceTraits& device_;
  const ShapeExtent extent_;
  std::array<Axis, 3> axis_;
  // Clocks of a multiprocessor for a box's products, for a row of its tile in all chunks, and for a position's results.
  double products_;
  double staged_row_;
  double written_;
  double shares_;
  std::vector<Judged> judged_;
};

}  // namespace

std::vector<BoxCandidate> likely_boxes(const CorrelationPlan& plan, int32_t element_bytes, const DeviceTraits& device,
                                       size_t most) {
  return Judge(plan, element_bytes, device).likeliest(most);
}

}  // namespace convt3d::mma
