// What plans that copy operands are held to: portions have every box once, and what is copied for a portion is what its
// boxes read. By the operator's definition.
#pragma once

#include "core/integer.h"
#include "engines/mma/tile/portions.h"
#include "terms.h"

#include <array>
#include <set>
#include <utility>
#include <vector>

namespace convt3d::mma {

// A depth of the operand, and the box along the depth that reads it.
using DepthRead = std::pair<int64_t, int64_t>;

inline void check_portions(const Problem& problem, const Portions& portions, const std::array<int64_t, 4>& boxes) {
  int64_t next = 0;
  for (int64_t number = 0; number < portion_count(portions, boxes); ++number) {
    const Portion portion = portion_at(portions, boxes, number);
    expect(portion.first_box == next && portion.end_box > next, "portions follow each other", problem);
    expect(portion.end_box - portion.first_box <= portion_boxes(portions, boxes), "no portion has more than the first",
           problem);
    std::set<std::pair<int64_t, int64_t>> pairs;  // image box, depth box
    for (int64_t box = portion.first_box; box < portion.end_box; box += boxes[2] * boxes[3]) {
      const int64_t depth = box / (boxes[2] * boxes[3]);
      pairs.insert({depth / boxes[1], depth % boxes[1]});
    }
    bool inside = true;
    for (const auto& [image, depth] : pairs) {
      inside = inside && image >= portion.first_image_box && image < portion.end_image_box &&
               depth >= portion.first_depth_box && depth < portion.end_depth_box;
    }
    expect(inside, "a portion's boxes are of its images and depths", problem);
    next = portion.end_box;
  }
  expect(next == boxes[0] * boxes[1] * boxes[2] * boxes[3], "portions have all boxes", problem);
}

// `depth`: positions of a box.
inline void check_copy(const Problem& problem, const OperandCopy& copy, const OperandTraits& tensor,
                       const Portions& portions, const BoxCounts& counts, const std::set<DepthRead>& reads) {
  const int64_t in_piece = kPieceBytes / copy.element_bytes;
  expect(copy.padded % in_piece == 0 && copy.padded >= copy.channels && copy.padded - copy.channels < in_piece,
         "channels of a group are whole pieces", problem);
  const bool has_depths = portions.depth_boxes == counts.boxes[1];
  expect(has_depths || portions.image_boxes == 1, "a portion of depths is of one image box", problem);
  for (int64_t number = 0; number < portion_count(portions, counts.boxes); ++number) {
    const Portion portion = portion_at(portions, counts.boxes, number);
    const DepthRange range = copy.reach.of(portion.first_depth_box, portion.end_depth_box, copy.size[0]);
    expect(range.count <= copy.depths && range.first + range.count <= copy.size[0], "there is room for a portion",
           problem);
    expect(
        (portion.end_image_box - portion.first_image_box) * counts.images <= copy.images || copy.images == counts.batch,
        "there is room for a portion's images", problem);
    bool copied = true;
    for (const auto& [depth, box] : reads) {
      if (box < portion.first_depth_box || box >= portion.end_depth_box) continue;
      copied = copied && depth >= range.first && depth < range.first + range.count;
    }
    expect(copied, "a portion copies what its boxes read", problem);
    if (!copy.vectors) continue;
    const auto aligned = [&](std::size_t axis) { return tensor.stride[axis] % in_piece == 0; };
    expect(tensor.address == 0 && aligned(0) && aligned(1) && (copy.run_axes > 1 || aligned(3)) &&
               (copy.run_axes > 2 ? range.first * tensor.stride[2] % in_piece == 0 : aligned(2)),
           "strips are aligned", problem);
  }
}

// `most`: bytes of all copies.
inline void check_copied_bytes(const Problem& problem, std::initializer_list<const OperandCopy*> copies,
                               const BoxCounts& counts, int64_t most) {
  int64_t bytes = 0;
  for (const OperandCopy* const copy : copies) bytes += copy->bytes();
  expect(bytes <= most || counts.depth == 1, "the bytes of a portion are bounded", problem);
}

}  // namespace convt3d::mma
