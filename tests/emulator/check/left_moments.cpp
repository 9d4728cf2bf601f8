#include "check/left_moments.h"

namespace check {

void leave_moments(const Size5& size, const std::vector<double>& values, Random& random,
                   const convt3d::EpilogueMoments& moments) {
  const int64_t positions = size[2] * size[3] * size[4];
  for (int64_t row = 0; row < size[0] * size[1]; ++row) {
    std::vector<std::vector<double>> of_part(static_cast<std::size_t>(moments.count));
    for (int64_t i = 0; i < positions; ++i) {
      const auto part = static_cast<std::size_t>(between(random, 0, static_cast<int>(moments.count) - 1));
      of_part[part].push_back(values[static_cast<std::size_t>(row * positions + i)]);
    }
    for (int64_t part = 0; part < moments.count; ++part) {
      const std::vector<double>& of = of_part[static_cast<std::size_t>(part)];
      double mean = 0;
      for (const double value : of) mean += value / static_cast<double>(of.size());
      const float pivot = of.empty() ? 0 : static_cast<float>(mean);
      double sum = 0;
      double squares = 0;
      for (const double value : of) {
        sum += value - pivot;
        squares += (value - pivot) * (value - pivot);
      }
      *moments.at(row / size[1], part, row % size[1]) = {static_cast<float>(of.size()), pivot, static_cast<float>(sum),
                                                         static_cast<float>(squares)};
    }
  }
}

}  // namespace check
