// What a group norm and its gradients are, in float64.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "check/norm.h"

namespace check {

// The definition, in float64, and beside each result the sum of the magnitudes of what it is computed from.
class NormReference {
 public:
  NormReference(const NormCase& item, std::vector<double> x, std::vector<double> weight, std::vector<double> bias,
                double eps);

  std::size_t statistic_of(std::size_t i) const { return i / static_cast<std::size_t>(elements_); }
  std::size_t channel_of(std::size_t i) const {
    return i / static_cast<std::size_t>(positions_) % static_cast<std::size_t>(item_.size[1]);
  }
  double input(std::size_t i) const { return x_[i]; }
  double deviation(std::size_t i) const { return x_[i] - mean[statistic_of(i)]; }
  double scale(std::size_t i) const { return rstd[statistic_of(i)] * weight_[channel_of(i)]; }
  double normalised(std::size_t i) const { return deviation(i) * scale(i) + bias_[channel_of(i)]; }
  // What the mean may be off by, over what an accumulator may; where it is float64, its own last digit.
  double spread(std::size_t statistic) const {
    return std::sqrt(variance[statistic]) + (item_.type == Type::kFloat64 ? std::fabs(mean[statistic]) / 2 : 0);
  }
  // What an error of the statistics makes of it, too.
  double magnitude(std::size_t i) const {
    return (std::fabs(deviation(i)) + spread(statistic_of(i))) * std::fabs(scale(i)) + std::fabs(bias_[channel_of(i)]);
  }
  double activated(std::size_t i) const {
    const double value = normalised(i);
    return value > 0 ? value : value * item_.slope;
  }

  struct Gradients {
    std::vector<double> x, weight, bias;
    std::vector<double> x_magnitude, weight_magnitude, bias_magnitude;
  };
  Gradients gradients(const std::vector<double>& grad) const;

  std::vector<double> mean, variance, rstd;

 private:
  const NormCase& item_;
  std::vector<double> x_, weight_, bias_;
  int64_t positions_ = 0;
  int64_t elements_ = 0;
};

}  // namespace check
