#include "check/norm_reference.h"

#include <utility>

namespace check {

NormReference::NormReference(const NormCase& item, std::vector<double> x, std::vector<double> weight,
                             std::vector<double> bias, double eps)
    : item_(item), x_(std::move(x)), weight_(std::move(weight)), bias_(std::move(bias)) {
  const Size5& size = item.size;
  positions_ = size[2] * size[3] * size[4];
  const int64_t channels = size[1] / item.groups;
  elements_ = channels * positions_;
  for (int64_t statistic = 0; statistic < size[0] * item.groups; ++statistic) {
    const double* first = x_.data() + statistic * elements_;
    long double sum = 0;
    for (int64_t i = 0; i < elements_; ++i) sum += first[i];
    const double average = static_cast<double>(sum / elements_);
    long double squares = 0;
    for (int64_t i = 0; i < elements_; ++i)
      squares += (first[i] - average) * static_cast<long double>(first[i] - average);
    mean.push_back(average);
    variance.push_back(static_cast<double>(squares / elements_));
    rstd.push_back(1 / std::sqrt(variance.back() + eps));
  }
}

NormReference::Gradients NormReference::gradients(const std::vector<double>& grad) const {
  Gradients result;
  const auto channels = static_cast<std::size_t>(item_.size[1]);
  for (auto* of : {&result.weight_magnitude, &result.bias_magnitude}) of->assign(channels, 0);
  std::vector<long double> of_weight(channels), of_bias(channels);
  std::vector<long double> sums(mean.size()), products(mean.size());
  std::vector<double> magnitudes(mean.size());
  std::vector<double> g(grad.size());
  for (std::size_t i = 0; i < grad.size(); ++i) {
    g[i] = normalised(i) > 0 ? grad[i] : grad[i] * item_.slope;
    const std::size_t c = channel_of(i);
    const double product = g[i] * deviation(i) * rstd[statistic_of(i)];
    of_bias[c] += g[i];
    of_weight[c] += product;
    result.bias_magnitude[c] += std::fabs(g[i]);
    // An error of the mean is one of the product.
    const double magnitude =
        std::fabs(product) + std::fabs(g[i]) * (1 + rstd[statistic_of(i)] * spread(statistic_of(i)));
    result.weight_magnitude[c] += magnitude;
    sums[statistic_of(i)] += weight_[c] * g[i];
    products[statistic_of(i)] += weight_[c] * product;
    magnitudes[statistic_of(i)] += std::fabs(weight_[c]) * magnitude;
  }
  result.weight.assign(of_weight.begin(), of_weight.end());
  result.bias.assign(of_bias.begin(), of_bias.end());
  const auto elements = static_cast<double>(elements_);
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const std::size_t s = statistic_of(i);
    const double value = deviation(i) * rstd[s];
    const auto gradient = static_cast<double>(scale(i) * g[i] - rstd[s] / elements * (sums[s] + value * products[s]));
    result.x.push_back(item_.relu && x_[i] <= 0 ? 0 : gradient);
    result.x_magnitude.push_back(std::fabs(scale(i) * g[i]) +
                                 rstd[s] / elements * (1 + std::fabs(value) + rstd[s] * spread(s)) * 2 * magnitudes[s]);
  }
  return result;
}

}  // namespace check
