#include "check/epilogue.h"

#include <cmath>
#include <cstring>
#include <random>
#include <sstream>

#include "machine/memory.h"

namespace check {
namespace {

std::size_t bytes_of(const Size5& size, int64_t parts) {
  return static_cast<std::size_t>(size[0] * size[1] * parts) * sizeof(convt3d::PartMoments);
}

// Of one channel of an image.
struct Statistics {
  double count = 0;
  double mean = 0;
  double deviation = 0;
};

}  // namespace

NormEpilogue::NormEpilogue(const Case& item, int64_t parts, const Tensor& output, bool exact, Random& random)
    : size_(item.output_size()), parts_(parts), output_(output) {
  const bool applies = chance(random, 40);
  if (!applies || chance(random, 30)) {
    parts_block_ = std::make_unique<MemoryBlock>(bytes_of(size_, parts), alignof(convt3d::PartMoments), 0, true);
    std::memset(parts_block_->begin(), 0xFF, parts_block_->bytes());  // NaNs
    emulator::add_region({parts_block_->begin(), parts_block_->begin() + parts_block_->bytes(), true, "the moments"});
  }
  if (applies) {
    const auto rows = static_cast<std::size_t>(size_[0] * size_[1]);
    norms_block_ =
        std::make_unique<MemoryBlock>(rows * sizeof(convt3d::ChannelNorm), alignof(convt3d::ChannelNorm), 0, true);
    std::normal_distribution<float> normal;
    const auto number = [&] { return exact ? static_cast<float>(between(random, -4, 4)) / 2 : normal(random); };
    const float slope = static_cast<float>(between(random, 0, 2)) / 2;
    auto* const norms = reinterpret_cast<convt3d::ChannelNorm*>(norms_block_->begin());
    for (std::size_t row = 0; row < rows; ++row) norms[row] = {number(), number(), number(), slope};
    norms_block_->make_readonly();
    emulator::add_region({norms_block_->begin(), norms_block_->begin() + norms_block_->bytes(), false, "the norms"});
  } else if (chance(random, 30)) {
    before_ = output.values();
  }
}

convt3d::EpilogueMoments NormEpilogue::moments() const {
  return {reinterpret_cast<convt3d::PartMoments*>(parts_block_->begin()), parts_, size_[1]};
}

void NormEpilogue::add_to(convt3d::Epilogue& epilogue) const {
  if (parts_block_) epilogue.moments = moments();
  if (norms_block_) {
    epilogue.norm = {reinterpret_cast<const convt3d::ChannelNorm*>(norms_block_->begin()), size_[1]};
  }
  epilogue.stores = before_.empty();
}

Expected NormEpilogue::normalised(Expected expected, const Bounds& bounds) const {
  const auto* const norms = reinterpret_cast<const convt3d::ChannelNorm*>(norms_block_->begin());
  const auto positions = static_cast<std::size_t>(size_[2] * size_[3] * size_[4]);
  for (std::size_t i = 0; i < expected.value.size(); ++i) {
    const convt3d::ChannelNorm& norm = norms[i / positions];
    // It may be off by `bound` before it is rounded, and so be rounded to another number.
    const double bound = bounds.exact ? 0 : bounds.of(0, expected.magnitude[i], expected.terms);
    const double apart =
        rounded(expected.value[i] + bound, bounds.type) - rounded(expected.value[i] - bound, bounds.type);
    const double stored = rounded(expected.value[i], bounds.type);
    const double value = (stored - norm.center) * norm.scale + norm.shift;
    expected.value[i] = value > 0 ? value : value * norm.slope;
    expected.magnitude[i] =
        (std::fabs(stored) + std::fabs(norm.center)) * std::fabs(norm.scale) + std::fabs(norm.shift);
    expected.further.push_back(apart * std::fabs(norm.scale));
  }
  return expected;
}

std::string NormEpilogue::compare(const Expected& expected, const Bounds& bounds) const {
  if (parts_block_) {
    const std::string wrong = compare_moments(expected, bounds);
    if (!wrong.empty()) return wrong;
  }
  if (before_.empty()) return check::compare(output_, norms_block_ ? normalised(expected, bounds) : expected, bounds);
  const std::vector<double> after = output_.values();
  if (std::memcmp(after.data(), before_.data(), after.size() * sizeof(double)) == 0) return "";
  return "the output is stored although it is not wanted";
}

std::string NormEpilogue::compare_moments(const Expected& expected, Bounds bounds) const {
  if (!parts_block_->surroundings_untouched()) return "memory around the moments is written";
  bounds.type = convt3d::DataType::kFloat32;  // they are of values that are not rounded yet
  const convt3d::EpilogueMoments moments = this->moments();
  const int64_t positions = size_[2] * size_[3] * size_[4];
  for (int64_t row = 0; row < size_[0] * size_[1]; ++row) {
    Statistics actual;
    long double sum = 0;
    for (const bool of_mean : {true, false}) {
      long double squares = 0;
      for (int64_t part = 0; part < parts_; ++part) {
        const convt3d::PartMoments& at = *moments.at(row / size_[1], part, row % size_[1]);
        if (of_mean) {
          actual.count += at.count;
          sum += static_cast<long double>(at.pivot) * at.count + at.sum;
        } else {
          const long double distance = at.pivot - actual.mean;
          squares += at.squares + 2 * distance * at.sum + distance * distance * at.count;
        }
      }
      if (of_mean) {
        actual.mean = static_cast<double>(sum / positions);
      } else {
        actual.deviation = std::sqrt(static_cast<double>(squares < 0 ? 0 : squares) / static_cast<double>(positions));
      }
    }
    Statistics wanted;
    double bound = 0;          // of the mean
    double squared_bound = 0;  // ... of the deviation, squared
    const auto first = static_cast<std::size_t>(row * positions);
    const auto end = static_cast<std::size_t>((row + 1) * positions);
    for (std::size_t i = first; i < end; ++i) {
      wanted.mean += expected.value[i] / static_cast<double>(positions);
      const double of_value = bounds.exact ? 0 : bounds.of(expected.value[i], expected.magnitude[i], expected.terms);
      bound += of_value / static_cast<double>(positions);
      squared_bound += of_value * of_value / static_cast<double>(positions);
    }
    for (std::size_t i = first; i < end; ++i) {
      wanted.deviation += std::pow(expected.value[i] - wanted.mean, 2) / static_cast<double>(positions);
    }
    wanted.deviation = std::sqrt(wanted.deviation);
    const double rounding = 1e-6 * (std::fabs(wanted.mean) * 0.25 + wanted.deviation) + 1e-30;
    const bool right = actual.count == static_cast<double>(positions) &&
                       std::fabs(actual.mean - wanted.mean) <= bound + rounding &&
                       std::fabs(actual.deviation - wanted.deviation) <= std::sqrt(squared_bound) + rounding;
    if (right) continue;
    std::ostringstream text;
    text << "moments of channel " << row % size_[1] << " of image " << row / size_[1] << ": " << actual.count
         << " outputs, mean " << actual.mean << ", deviation " << actual.deviation << "; not " << positions << ", "
         << wanted.mean << ", " << wanted.deviation;
    return text.str();
  }
  return "";
}

}  // namespace check
