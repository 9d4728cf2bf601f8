#include "check/arrangement.h"

#include <algorithm>
#include <stdexcept>

namespace check {

const std::vector<Arrangement>& arrangements() {
  static const std::vector<Arrangement> all = {
      {"dense", {}, {}, 0, {}, {}},
      {"offset", {}, {}, 1, {}, {}},
      {"offset_four", {}, {}, 4, {}, {}},  // of 16 bits: quads are aligned, pieces of 16 bytes are not
      {"slice_w", {0, 0, 0, 0, 1}, {0, 0, 0, 0, 2}, 0, {}, {}},
      {"slice_w_aligned", {0, 0, 0, 0, 8}, {0, 0, 0, 0, 16}, 0, {}, {}},
      {"slice_h", {0, 0, 0, 1, 0}, {0, 0, 0, 2, 0}, 0, {}, {}},
      {"slice_d", {0, 0, 1, 0, 0}, {0, 0, 1, 0, 0}, 0, {}, {}},
      {"slice_c", {0, 1, 0, 0, 0}, {0, 2, 0, 0, 0}, 0, {}, {}},
      {"slice_c_aligned", {0, 16, 0, 0, 0}, {0, 8, 0, 0, 0}, 0, {}, {}},
      {"slice_c_quads", {0, 4, 0, 0, 0}, {0, 8, 0, 0, 0}, 0, {}, {}},
      {"slice_all", {1, 2, 0, 1, 3}, {0, 1, 2, 0, 1}, 0, {}, {}},
      {"permuted_width", {}, {}, 0, {}, {0, 1, 4, 3, 2}},
      {"permuted_height", {}, {}, 0, {}, {3, 0, 2, 1, 4}},
      {"permuted_channels", {}, {}, 0, {}, {4, 3, 0, 2, 1}},
      {"batch_inner", {}, {}, 0, {}, {1, 2, 3, 4, 0}},
      {"expanded_n", {}, {}, 0, {0}, {}},
      {"expanded_c", {}, {}, 0, {1}, {}},
      {"expanded_w", {}, {}, 0, {4}, {}},
      {"expanded", {}, {}, 0, {0, 1, 2, 3, 4}, {}},
  };
  return all;
}

const Arrangement& arrangement_of(const std::string& name) {
  std::string known;
  for (const Arrangement& arrangement : arrangements()) {
    if (name == arrangement.name) return arrangement;
    known += std::string(known.empty() ? "" : ", ") + arrangement.name;
  }
  throw std::invalid_argument("'" + name + "' is none of " + known);
}

Place place_of(const Size5& size, Layout layout, const Arrangement& arrangement) {
  std::vector<std::size_t> order = arrangement.order;
  if (order.empty()) {
    order =
        layout == Layout::kNcdhw ? std::vector<std::size_t>{0, 1, 2, 3, 4} : std::vector<std::size_t>{0, 2, 3, 4, 1};
  }
  std::reverse(order.begin(), order.end());
  Place place{{}, arrangement.offset};
  int64_t extent = 1;
  for (const std::size_t axis : order) {
    const auto& expanded = arrangement.expanded;
    if (std::find(expanded.begin(), expanded.end(), axis) != expanded.end()) continue;
    place.stride[axis] = extent;
    place.first += arrangement.before[axis] * extent;
    extent *= arrangement.before[axis] + size[axis] + arrangement.after[axis];
  }
  return place;
}

bool has_channels_last_strides(const Size5& size, const Size5& stride) {
  if (stride[1] == 0) return false;
  int64_t extent = 0;
  for (const std::size_t axis : {1, 4, 3, 2, 0}) {
    if (stride[axis] < extent || (axis == 0 && extent == stride[1])) return false;
    extent = stride[axis] * size[axis];
  }
  return true;
}

}  // namespace check
