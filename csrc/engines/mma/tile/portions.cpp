#include "engines/mma/tile/portions.h"

#include <algorithm>
#include <climits>

#include "core/integer.h"
#include "engines/mma/tile/multiprocessor_cost.h"

namespace convt3d::mma {
namespace {

int64_t images_of(const Portions& portions, int64_t images, int64_t batch) {
  return std::min(batch, portions.image_boxes * images);
}

// Sets the images and depths that a portion's copies have at most, and returns the bytes that they take.
int64_t set_room(const Portions& portions, std::initializer_list<OperandCopy*> copies, int64_t images, int64_t batch) {
  int64_t bytes = 0;
  for (OperandCopy* const copy : copies) {
    if (!copy->exists) continue;
    copy->images = images_of(portions, images, batch);
    const DepthReach& reach = copy->reach;
    copy->depths = std::min(copy->size[0], (portions.depth_boxes - 1) * reach.step + reach.last - reach.first + 1);
    bytes += copy->bytes();
  }
  return bytes;
}

// How many of `count` a part has where as few parts as `most` allows share them evenly.
int64_t evenly(int64_t count, int64_t most) { return ceil_div(count, ceil_div(count, most)); }

}  // namespace

OperandCopy copy_that_may_be(const OperandTraits& tensor, const OperandTraits& mask, int64_t images, const Int3& size,
                             int64_t groups, int64_t channels, int64_t element_bytes) {
  const OperandCopy copy = operand_copy(tensor, mask, size, groups, channels, element_bytes);
  return may_copy(tensor, copy, images) ? copy : OperandCopy{};
}

DepthReach depth_reach(const TileAxis& depth) {
  const int32_t* const end = depth.delta + depth.components;
  return {int64_t{depth.box} * depth.step, *std::min_element(depth.delta, end),
          *std::max_element(depth.delta, end) + int64_t{depth.length - 1} * depth.step};
}

int64_t portion_count(const Portions& portions, const std::array<int64_t, 4>& boxes) {
  if (portions.image_boxes == 0) return 1;
  return ceil_div(boxes[0], portions.image_boxes) * ceil_div(boxes[1], portions.depth_boxes);
}

Portion portion_at(const Portions& portions, const std::array<int64_t, 4>& boxes, int64_t number) {
  const int64_t of_depth = boxes[2] * boxes[3];
  if (portions.image_boxes == 0) return {0, boxes[0] * boxes[1] * of_depth, 0, boxes[0], 0, boxes[1]};
  const int64_t in_image = ceil_div(boxes[1], portions.depth_boxes);
  Portion portion{};
  portion.first_image_box = number / in_image * portions.image_boxes;
  portion.end_image_box = std::min(boxes[0], portion.first_image_box + portions.image_boxes);
  portion.first_depth_box = number % in_image * portions.depth_boxes;
  portion.end_depth_box = std::min(boxes[1], portion.first_depth_box + portions.depth_boxes);
  portion.first_box = (portion.first_image_box * boxes[1] + portion.first_depth_box) * of_depth;
  portion.end_box = ((portion.end_image_box - 1) * boxes[1] + portion.end_depth_box) * of_depth;
  return portion;
}

int64_t portion_boxes(const Portions& portions, const std::array<int64_t, 4>& boxes) {
  return portion_at(portions, boxes, 0).end_box;
}

const char* to_name(const Portions& portions, const std::array<int64_t, 4>& boxes) {
  if (portions.image_boxes == 0) return "none";
  if (portions.depth_boxes < boxes[1]) return "depths";
  return portions.image_boxes < boxes[0] ? "images" : "whole";
}

std::string to_string(const Portions& portions) {
  return std::to_string(portions.image_boxes) + "x" + std::to_string(portions.depth_boxes);
}

bool choose_portions(Portions& portions, std::initializer_list<OperandCopy*> copies, const BoxCounts& counts,
                     int64_t most_bytes) {
  const auto& boxes = counts.boxes;
  const auto room = [&](int64_t image_boxes, int64_t depth_boxes) {
    portions = {image_boxes, depth_boxes};
    return set_room(portions, copies, counts.images, counts.batch);
  };
  int64_t bytes = room(1, boxes[1]);
  if (bytes <= most_bytes) {
    room(evenly(boxes[0], std::min(boxes[0], most_bytes / std::max<int64_t>(1, bytes))), boxes[1]);
  } else {
    // A depth's box more is as much more as the one before, but where the operand ends.
    const int64_t of_one = room(1, 1);
    const int64_t next = boxes[1] > 1 ? std::max<int64_t>(1, room(1, 2) - of_one) : 1;
    const int64_t most = 1 + std::max<int64_t>(0, most_bytes - of_one) / next;
    bytes = room(1, evenly(boxes[1], std::min(boxes[1], most)));
    if (bytes > most_bytes && counts.depth > 1) return false;
  }
  for (OperandCopy* const copy : copies) {
    if (copy->bytes() / kPieceBytes > INT32_MAX) return false;
    const bool from_first_depth = portions.depth_boxes == boxes[1] && copy->reach.first <= 0;
    copy->vectors = copy->alignment == StripAlignment::kAll ||
                    (copy->alignment == StripAlignment::kFromFirstDepth && from_first_depth);
  }
  return true;
}

double copies_ms(const Portions& portions, std::initializer_list<const OperandCopy*> copies,
                 const std::array<int64_t, 4>& boxes, int64_t batch, const DeviceTraits& device) {
  const auto count = static_cast<double>(portion_count(portions, boxes));
  double ms = 0;
  for (const OperandCopy* const copy : copies) {
    if (!copy->exists) continue;
    const double in_image = portions.depth_boxes < boxes[1]
                                ? static_cast<double>(ceil_div(boxes[1], portions.depth_boxes))
                                : 1.0;  // portions, which overlap
    ms += count * device.launches.next + in_image * copy_ms(*copy, batch, device);
  }
  return ms;
}

double portions_ms(int64_t count, const DeviceTraits& device) {
  return static_cast<double>(count - 1) * device.launches.next;
}

bool stay_in_l2(std::initializer_list<const OperandCopy*> copies, const DeviceTraits& device) {
  int64_t bytes = 0;
  for (const OperandCopy* const copy : copies) bytes += copy->bytes();
  return bytes <= device.l2_bytes / 2;
}

}  // namespace convt3d::mma
