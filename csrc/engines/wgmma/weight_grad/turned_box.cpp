#include "engines/wgmma/weight_grad/turned_box.h"

#include <algorithm>

#include "core/integer.h"
#include "engines/wgmma/weight_grad/plan.h"

namespace convt3d {
namespace {

constexpr int32_t kMostPositions = 256;
constexpr double kMostWaste = 1.2;  // over the least of any box
constexpr std::size_t kMostBoxes = 64;

// The block of a box that leaves the fewest positions of its last step empty; of those the largest.
bool set_block(TurnedBox& box) {
  double best = 0;
  for (int32_t w = box.extent[2]; w >= 1; --w) {
    for (int32_t h = box.extent[1]; h >= 1; --h) {
      for (int32_t d = box.extent[0]; d >= 1; --d) {
        const int32_t positions = box.images * w * h * d;
        if (positions > kWgmmaTurnedBlock || box.extent[2] % w != 0 || box.extent[1] % h != 0 || box.extent[0] % d != 0)
          continue;
        const double used = static_cast<double>(positions) / (turned_steps(positions) * kWgmmaTurnedStep);
        if (used + 1e-3 * positions <= best) continue;
        best = used + 1e-3 * positions;
        box.block[0] = d;
        box.block[1] = h;
        box.block[2] = w;
      }
    }
  }
  return best > 0;
}

double waste_of(const Problem& problem, const TurnedBox& box) {
  double steps = static_cast<double>(ceil_div(problem.batch, box.images));
  double positions = static_cast<double>(problem.batch);
  int32_t in_block = box.images;
  for (std::size_t i = 0; i < 3; ++i) {
    steps *= static_cast<double>(ceil_div(problem.input_size[i], box.extent[i])) * box.extent[i] / box.block[i];
    positions *= static_cast<double>(problem.input_size[i]);
    in_block *= box.block[i];
  }
  return steps * turned_steps(in_block) * kWgmmaTurnedStep / positions;
}

}  // namespace

std::vector<int32_t> turned_extents(int64_t size, int32_t most) {
  std::vector<int32_t> found;
  const auto add = [&](int64_t extent) {
    if (extent <= most && std::find(found.begin(), found.end(), extent) == found.end()) {
      found.push_back(static_cast<int32_t>(extent));
    }
  };
  for (const int64_t count : {1, 2, 3, 4}) add(ceil_div(size, count));
  add(round_up(size, 8));
  for (const int64_t power : {32, 16, 8, 4, 2, 1}) {
    if (power <= round_up(size, 8)) add(power);
  }
  return found;
}

std::vector<TurnedBox> turned_boxes(const Problem& problem) {
  std::vector<TurnedBox> found;
  const int64_t all = problem.batch * problem.input_size[0] * problem.input_size[1] * problem.input_size[2];
  const int64_t least = std::min<int64_t>(kWgmmaTurnedBlock, all);
  for (const int32_t images : {1, 2, 4, 8, 16}) {
    if (images > 1 && images >= 2 * problem.batch) continue;
    for (const int32_t width : turned_extents(problem.input_size[2], kMostPositions)) {
      for (const int32_t height : turned_extents(problem.input_size[1], kMostPositions / width)) {
        for (const int32_t depth : turned_extents(problem.input_size[0], kMostPositions / width / height)) {
          TurnedBox box{images, {depth, height, width}, {1, 1, 1}, 0};
          const int64_t positions = int64_t{images} * depth * height * width;
          if (positions > kMostPositions || positions < least || !set_block(box)) continue;
          const int32_t of_block = images * box.block[0] * box.block[1] * box.block[2];
          if (positions / of_block * turned_steps(of_block) > kWgmmaGradMostSteps) continue;
          box.waste = waste_of(problem, box);
          found.push_back(box);
        }
      }
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const TurnedBox& a, const TurnedBox& b) { return a.waste < b.waste; });
  const auto wasteful = std::find_if(
      found.begin(), found.end(), [&](const TurnedBox& box) { return box.waste > kMostWaste * found.front().waste; });
  found.erase(wasteful, found.end());
  if (found.size() > kMostBoxes) found.resize(kMostBoxes);
  return found;
}

}  // namespace convt3d
